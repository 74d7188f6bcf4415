"""Users whose tasks a machine does not run, as it said when it refused one, or as they all end.

Without this the same is tried again and again, and the machine would be left alone for everybody.
The machine may change its mind: it is asked again after a while, and when it is known anew.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from iriai.protocol.messages.scheduling import TurnedAway, Want

REMEMBERED_S = 600.0
"""A user who was made there meanwhile is served within ten minutes; each try costs a refusal."""
USERS_MAX = 1000
"""Of one machine. A thousand people are the largest site; a machine that names more makes it up."""
NOWHERE: frozenset[str] = frozenset()


class User(NamedTuple):
    """Of one home."""

    home: str
    name: str


class _Word(NamedTuple):
    until_s: float
    words: str
    is_ours: bool = False
    """Whether the broker came to it by itself, by how the user's tasks end there."""


class UserExclusions:
    """See the module."""

    def __init__(self) -> None:
        self._said: dict[str, OrderedDict[User, _Word]] = {}
        """By machine, the oldest first."""
        self._next_s: float | None = None
        self._is_stale = False
        """Whether `_next_s` may be another, since something was said or forgotten."""
        self._machines: dict[User, frozenset[str]] = {}
        self._changed: dict[User, None] = {}

    def add(self, machine: str, whose: TurnedAway, now_s: float) -> None:
        """A machine said it."""
        user = User(whose.home, whose.user)
        self._put(machine, user, _Word(now_s + REMEMBERED_S, whose.words))

    def keep_away(self, machine: str, user: User, words: str, until_s: float) -> None:
        """A user's tasks fail at once there, and do well elsewhere: none is tried until then."""
        said = self._said.get(machine)
        known = said.get(user) if said else None
        if known is None or known.is_ours:
            self._put(machine, user, _Word(until_s, words, is_ours=True))

    def relent(self, machine: str, user: str) -> None:
        """A task of that user did well there: what the broker came to by itself is over."""
        said = self._said.get(machine, OrderedDict())
        for each in [each for each, word in said.items() if word.is_ours and each.name == user]:
            self._drop(machine, each)

    def _put(self, machine: str, user: User, word: _Word) -> None:
        said = self._said.setdefault(machine, OrderedDict())
        is_new = said.pop(user, None) is None
        said[user] = word
        if is_new:
            self._set(user, self._of(user) | {machine})
        if len(said) > USERS_MAX:
            self._drop(machine, next(iter(said)))
        self._is_stale = True

    def forget(self, machine: str) -> None:
        """It is known anew: what it said before may not hold."""
        for user in list(self._said.get(machine, ())):
            self._drop(machine, user)

    def expire(self, now_s: float) -> None:
        """What was said long ago is asked again."""
        if self.next_s is None or now_s < self.next_s:
            return
        for machine, said in list(self._said.items()):
            for user in [user for user, word in said.items() if word.until_s <= now_s]:
                self._drop(machine, user)

    @property
    def next_s(self) -> float | None:
        """When something is forgotten next; None: nothing is remembered."""
        if self._is_stale:
            self._is_stale = False
            times = (word.until_s for said in self._said.values() for word in said.values())
            self._next_s = min(times, default=None)
        return self._next_s

    def of(self, want: Want) -> frozenset[str]:
        """Where a want's tasks are not run."""
        return self._of(User(want.job.home, user_of(want))) if self._machines else NOWHERE

    def words(self, machine: str, want: Want) -> str:
        """What the machine said."""
        word = self._word(machine, want)
        return word.words if word else ""

    def is_ours(self, machine: str, want: Want) -> bool:
        """Whether the broker came to it by itself."""
        word = self._word(machine, want)
        return word is not None and word.is_ours

    def _word(self, machine: str, want: Want) -> _Word | None:
        said = self._said.get(machine)
        return said.get(User(want.job.home, user_of(want))) if said else None

    def drain_changed(self) -> dict[User, None]:
        """For whom other machines are out of the question than when this was last asked."""
        changed, self._changed = self._changed, {}
        return changed

    def _of(self, user: User) -> frozenset[str]:
        return self._machines.get(user, NOWHERE)

    def _drop(self, machine: str, user: User) -> None:
        self._is_stale = True
        del self._said[machine][user]
        if not self._said[machine]:
            del self._said[machine]
        self._set(user, self._of(user) - {machine})

    def _set(self, user: User, machines: frozenset[str]) -> None:
        self._changed[user] = None
        if machines:
            self._machines[user] = machines
        else:
            del self._machines[user]


def user_of(want: Want) -> str:
    """As whom its tasks run."""
    return want.user or want.account.user
