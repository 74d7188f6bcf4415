"""Requirements of jobs and machines; without any, nothing is loaded."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import MachineView
from iriai.classad.constraint import condition
from iriai.classad.installation import why_unusable
from iriai.classad.volatile_attributes import load_attributes, state_attributes
from iriai.model.ad import MachineAd, Value, capacity_attributes, job_attributes, machine_ad
from iriai.protocol.messages.scheduling import TurnedAway, Want

if TYPE_CHECKING:
    from iriai.policy.matching.job_requirements import DemandKey
    from iriai.policy.matching.match import Matches

REMEMBERED_S = 600.0
"""Less: more refusals; more: a user who was added there meanwhile waits longer."""
USERS_MAX = 1000
"""Users that one machine may name. The largest site has a thousand; a machine that names more is
faulty."""
NOWHERE: frozenset[str] = frozenset()


class User(NamedTuple):
    """A user of one home."""

    home: str
    name: str


class Exclusion(NamedTuple):
    """That a machine runs no tasks of a user."""

    until_s: float
    words: str
    is_concluded: bool = False
    """True if the broker concluded it from how the user's tasks end there."""
    is_in_use: bool = False
    """True if that is so only while the machine's owner uses it."""


class UserExclusions:
    """The users whose tasks a machine refused, or whose tasks all fail there.

    Without it the same tasks would be tried repeatedly, and the machine be backed off for all
    users. A refusal is forgotten after a while, and when the machine is reported anew.
    """

    def __init__(self) -> None:
        self._exclusions: dict[str, OrderedDict[User, Exclusion]] = {}
        """By machine, the oldest first."""
        self._next_s: float | None = None
        self._is_stale = False
        """Whether `_next_s` must be computed again."""
        self._machines: dict[User, frozenset[str]] = {}
        self._changed: dict[User, None] = {}

    def add(self, machine: str, whose: TurnedAway, now_s: float) -> None:
        """Note a refusal by a machine."""
        user = User(whose.home, whose.user)
        until_s = now_s + REMEMBERED_S
        self._put(machine, user, Exclusion(until_s, whose.words, is_in_use=whose.is_in_use))

    def exclude(self, machine: str, user: User, words: str, until_s: float) -> None:
        """Exclude a user whose tasks fail at once only there, unless the machine itself refused."""
        excluded = self._exclusions.get(machine)
        known = excluded.get(user) if excluded else None
        if known is None or known.is_concluded:
            self._put(machine, user, Exclusion(until_s, words, is_concluded=True))

    def relent(self, machine: str, user: str) -> None:
        """Drop what the broker concluded of a user: a task of theirs succeeded there."""
        excluded = self._exclusions.get(machine, OrderedDict())
        for each, exclusion in list(excluded.items()):
            if exclusion.is_concluded and each.name == user:
                self._drop(machine, each)

    def _put(self, machine: str, user: User, exclusion: Exclusion) -> None:
        excluded = self._exclusions.setdefault(machine, OrderedDict())
        is_new = excluded.pop(user, None) is None
        excluded[user] = exclusion
        if is_new:
            self._set(user, self._of(user) | {machine})
        if len(excluded) > USERS_MAX:
            self._drop(machine, next(iter(excluded)))
        self._is_stale = True

    def forget(self, machine: str) -> None:
        """Forget the refusals of a machine that is known again: they may not hold."""
        for user in list(self._exclusions.get(machine, ())):
            self._drop(machine, user)

    def expire(self, now_s: float) -> None:
        """Forget old refusals, so that the machines are asked again."""
        if self.next_s is None or now_s < self.next_s:
            return
        for machine, excluded in list(self._exclusions.items()):
            for user in [
                user for user, exclusion in excluded.items() if exclusion.until_s <= now_s
            ]:
                self._drop(machine, user)

    @property
    def next_s(self) -> float | None:
        """Return when something is forgotten next; None: nothing is remembered."""
        if self._is_stale:
            self._is_stale = False
            times = (
                exclusion.until_s
                for excluded in self._exclusions.values()
                for exclusion in excluded.values()
            )
            self._next_s = min(times, default=None)
        return self._next_s

    def of(self, want: Want) -> frozenset[str]:
        """Return the machines where a want's tasks are not run."""
        return self._of(User(want.job.home, user_of(want))) if self._machines else NOWHERE

    def get(self, machine: str, want: Want) -> Exclusion | None:
        """Return why a machine does not run a want's tasks; None where it may run them."""
        excluded = self._exclusions.get(machine)
        return excluded.get(User(want.job.home, user_of(want))) if excluded else None

    def drain_changed(self) -> dict[User, None]:
        """Return the users whose excluded machines changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def _of(self, user: User) -> frozenset[str]:
        return self._machines.get(user, NOWHERE)

    def _drop(self, machine: str, user: User) -> None:
        self._is_stale = True
        del self._exclusions[machine][user]
        if not self._exclusions[machine]:
            del self._exclusions[machine]
        self._set(user, self._of(user) - {machine})

    def _set(self, user: User, machines: frozenset[str]) -> None:
        self._changed[user] = None
        if machines:
            self._machines[user] = machines
        else:
            del self._machines[user]


def user_of(want: Want) -> str:
    """Return the name of the user as whom the tasks run."""
    return want.user or want.account.user


TEXTS_KEPT = 4096
"""Expressions whose attributes are remembered."""


class Matchmaking:
    """Matches requirements with machines; maintained once an expression is in use."""

    def __init__(self, index: MachineIndex) -> None:
        self.matches: Matches | None = None
        """None: no job and no machine has ever had requirements here."""
        self._index = index

    def key(self, want: Want) -> DemandKey | None:
        """Return the key of what a job and owners require of each other; None: nothing."""
        has_any = want.requirements or want.rank
        if not has_any and (self.matches is None or not self.matches.has_policies):
            return None
        if why_unusable(on_many=True):
            return None
        keys = self.begin().significant | mentioned(want.requirements) | mentioned(want.rank)
        from iriai.policy.matching.job_requirements import DemandKey

        job = attributes_of_want(want)
        traits = ((name.lower(), value) for name, value in job.items())
        return DemandKey(
            want.requirements, want.rank, tuple(each for each in traits if each[0] in keys)
        )

    def problem_of(self, want: Want) -> str:
        """Return why a want's requirements cannot be judged here; empty: they can, or are none."""
        return why_unusable(on_many=True) if want.requirements else ""

    def put(self, view: MachineView) -> bool:
        """Enter a machine; return whether owners look at other attributes of jobs than before."""
        if self.matches is None:
            if not (view.ad.requirements or view.ad.rank) or why_unusable(on_many=True):
                return False
            self.begin()
            return True
        return self.matches.put(view.name, ad_of(view), measured(view))

    def drop(self, machine: str) -> None:
        """Remove a machine."""
        if self.matches is not None:
            self.matches.forget(machine)

    def measured(self, view: MachineView) -> bool:
        """Take a machine's load; return whether what may run there may have changed."""
        return self.matches is not None and self.matches.measured(view.name, measured(view))

    def tick(self, wall_s: float) -> bool:
        """Take the time; return whether what may run where may have changed."""
        return self.matches is not None and self.matches.tick(wall_s)

    def begin(self) -> Matches:
        """Return the ads of all machines, of which none were kept before the first requirement."""
        if self.matches is None:
            from iriai.policy.matching.match import Matches

            self.matches = Matches()
            for view in self._index.views.values():
                self.matches.put(view.name, ad_of(view), measured(view))
        return self.matches


def ad_of(view: MachineView) -> MachineAd:
    """Return a machine's ad; of one that reported none, one made from its capacity."""
    if view.ad.attributes:
        return view.ad
    attributes = capacity_attributes(view.name, view.calendar.capacity, view.speed)
    return machine_ad(attributes, view.ad.requirements, view.ad.rank)


def measured(view: MachineView) -> dict[str, Value]:
    """Return what a machine measured last."""
    calendar = view.calendar
    return {
        **load_attributes(
            *(view.load, view.foreign_load, view.keyboard_idle_s, view.use), view.expected_idle_s
        ),
        **state_attributes(
            view.unavailable, view.use, is_claimed=calendar.free.cpus < calendar.capacity.cpus
        ),
    }


def attributes_of_want(want: Want) -> dict[str, Value]:
    """Return the attributes of a job that owners' policies can use."""
    account = want.account._replace(group=want.group) if want.group else want.account
    return job_attributes(
        account, want.resources, want.limit_s, want.urgency, exclusive=want.exclusive
    )


@lru_cache(TEXTS_KEPT)
def mentioned(text: str) -> frozenset[str]:
    """Return the keys of the attributes that an expression uses."""
    return condition(text).keys
