"""Turns of service among users: who is served next."""

from __future__ import annotations


class FairTurns:
    """Users with something to do; pure. Times are seconds of work.

    Start-time fair queueing (Goyal, Vin and Cheng, 1996) with costs that are known afterwards:
    each user has a virtual time, which grows by what serving them took, and who has the smallest
    is next. Who comes back after a pause begins where the others are, so that idling earns
    nothing.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, float] = {}
        """The virtual time of each user with something to do; for others to look at."""
        self._resting: dict[str, float] = {}
        """The same of those who had nothing more to do, and are ahead of `_floor_s` still."""
        self._floor_s = 0.0
        """The virtual time of whoever was served last."""

    def enter(self, user: str) -> None:
        """`user` has something to do from now on."""
        self.waiting[user] = max(self._resting.pop(user, 0.0), self._floor_s)

    def leave(self, user: str) -> None:
        """`user` has nothing to do any more."""
        virtual_s = self.waiting.pop(user)
        if not self.waiting:
            self._resting.clear()  # nobody is there to be ahead of
        elif virtual_s > self._floor_s:
            self._resting[user] = virtual_s

    def next(self) -> str:
        """Who is to be served; someone has something to do."""
        user = min(self.waiting, key=self.waiting.__getitem__)
        if self.waiting[user] > self._floor_s:
            self._floor_s = self.waiting[user]
            self._resting = {
                each: virtual_s
                for each, virtual_s in self._resting.items()
                if virtual_s > self._floor_s
            }
        return user

    def charge(self, user: str, took_s: float, weight: float = 1.0) -> None:
        """Serving `user`, who has `weight` times the usual share, took so long."""
        self.waiting[user] += took_s / weight
