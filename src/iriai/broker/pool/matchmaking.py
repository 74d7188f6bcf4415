"""Requirements of jobs and machines, as far as anybody has any; without them nothing is loaded."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from iriai.broker.pool.machine_view import MachineView
from iriai.broker.pool.pool import MachinePool
from iriai.classad.constraint import condition
from iriai.classad.volatile_attributes import load_attributes
from iriai.model.ad import MachineAd, Value, capacity_attributes, job_attributes, machine_ad
from iriai.protocol.messages.scheduling import Want

if TYPE_CHECKING:
    from iriai.policy.matching.job_requirements import Demand, DemandKey
    from iriai.policy.matching.match import Matches

TEXTS_KEPT = 4096
"""Expressions of which it is known what they mention."""


class Matchmaking:
    """Kept up with the machines once an expression is in use; see the module."""

    def __init__(self, park: MachinePool) -> None:
        self.matches: Matches | None = None
        """None: no job and no machine has ever had requirements here."""
        self._park = park

    def key(self, want: Want) -> DemandKey | None:
        """What the want's tasks ask of machines, and owners may ask of them; None: nothing."""
        if self.matches is None:
            if not (want.requirements or want.rank):
                return None
            self._begin()
        assert self.matches is not None
        if not (want.requirements or want.rank or self.matches.has_policies):
            return None
        keys = self.matches.significant | mentioned(want.requirements) | mentioned(want.rank)
        from iriai.policy.matching.job_requirements import DemandKey

        job = attributes_of_want(want)
        traits = ((name.lower(), value) for name, value in job.items())
        return DemandKey(
            want.requirements, want.rank, tuple(each for each in traits if each[0] in keys)
        )

    def demand(self, key: DemandKey) -> Demand:
        """What tasks with that key may run on."""
        assert self.matches is not None
        return self.matches.demand(key)

    def put(self, view: MachineView) -> bool:
        """A machine is new or known anew; whether what is to be known of jobs is another."""
        if self.matches is None:
            if not (view.ad.requirements or view.ad.rank):
                return False
            self._begin()
            return True
        return self.matches.put(view.name, ad_of(view), measured(view))

    def drop(self, machine: str) -> None:
        """A machine is gone for good."""
        if self.matches is not None:
            self.matches.forget(machine)

    def measured(self, view: MachineView) -> bool:
        """A machine told its load; whether what may run there may be another."""
        return self.matches is not None and self.matches.measured(view.name, measured(view))

    def tick(self, wall_s: float) -> bool:
        """The time; whether what may run where may be another."""
        return self.matches is not None and self.matches.tick(wall_s)

    @property
    def follows_clock(self) -> bool:
        """Whether what may run where depends on the time."""
        return self.matches is not None and self.matches.follows_clock

    def begin(self) -> Matches:
        """All machines' ads, whether anybody had requirements before or not."""
        if self.matches is None:
            self._begin()
        assert self.matches is not None
        return self.matches

    def _begin(self) -> None:
        from iriai.policy.matching.match import Matches

        self.matches = Matches()
        for view in self._park.views.values():
            self.matches.put(view.name, ad_of(view), measured(view))


def ad_of(view: MachineView) -> MachineAd:
    """A machine's ad; of one that told none, what its capacity says."""
    if view.ad.attributes:
        return view.ad
    attributes = capacity_attributes(view.name, view.calendar.capacity, view.speed)
    return machine_ad(attributes, view.ad.requirements, view.ad.rank)


def measured(view: MachineView) -> dict[str, Value]:
    """What a machine measured last."""
    return load_attributes(view.load, view.foreign_load, view.keyboard_idle_s)


def attributes_of_want(want: Want) -> dict[str, Value]:
    """What owners' policies see of a job."""
    account = want.account._replace(group=want.group) if want.group else want.account
    return job_attributes(
        account, want.resources, want.limit_s, want.urgency, exclusive=want.exclusive
    )


@lru_cache(TEXTS_KEPT)
def mentioned(text: str) -> frozenset[str]:
    """The keys of the attributes that an expression looks at."""
    return condition(text).keys
