"""Turns of service among users: who is served next."""

from __future__ import annotations


class FairTurns:
    """The users who wait to be served; pure. Times are seconds of work.

    Start-time fair queueing (Goyal, Vin and Cheng, 1996) with costs that are known afterwards:
    each user has a virtual time, which grows by what serving them took, and who has the smallest
    is next. A user who returns after a pause begins where the others are: idling earns nothing.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, float] = {}
        """The virtual time of each user who waits; read only for others."""
        self._resting: dict[str, float] = {}
        """The virtual time of users who do not wait, and are still ahead of `_floor_s`."""
        self._floor_s = 0.0
        """The virtual time of the user who was served last."""

    def enter(self, user: str) -> None:
        """Enter a user who waits from now on."""
        self.waiting[user] = max(self._resting.pop(user, 0.0), self._floor_s)

    def leave(self, user: str) -> None:
        """Remove a user who does not wait any more."""
        virtual_s = self.waiting.pop(user)
        if not self.waiting:
            self._resting.clear()  # nobody is there to be ahead of
        elif virtual_s > self._floor_s:
            self._resting[user] = virtual_s

    def next(self) -> str:
        """Return the user to serve; there is one who waits."""
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
        """Charge `user`, who has `weight` times the usual share, for a service of `took_s`."""
        self.waiting[user] += took_s / weight
