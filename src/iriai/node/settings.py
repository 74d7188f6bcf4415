"""Settings of a node, given once at its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iriai.model.ad import MachineAd, with_amounts
from iriai.model.reservable import UNLIMITED, Reservable
from iriai.model.reservation import NO_SHOW_CHARGE
from iriai.model.resources import Resources
from iriai.node.queues import NodeQueues
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.owner.owner_steps import OwnerSteps
from iriai.policy.placement.calendar import END_SLACK_S, USER_SUSPEND_MAX_S
from iriai.protocol.ledger.use_bounds import rate_of

JudgeUser = Callable[[str, str, float], str]
"""Returns why tasks are not run here; empty: they are. By the home where they were submitted, their
user, and the wall clock."""


def admit_everybody(_home: str, _user: str, _wall_s: float) -> str:
    """Accept all users."""
    return ""


def no_port() -> int:
    """Return no port: nothing listens on this machine."""
    return 0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of a node."""

    machine: str
    capacity: Resources
    rule: ChargeRule
    fading: Decay
    speed: float = 1.0
    boot_id: str = ""
    """Changes with every boot of the machine."""
    end_slack_s: float = END_SLACK_S
    """`[jobs] end_slack_s`."""
    user_suspend_max_s: float = USER_SUSPEND_MAX_S
    """`[jobs] user_suspend_max_s`."""
    load_max: float | None = None
    """Foreign load for each cpu above which no task starts; None: no bound."""
    judge_user: JudgeUser = admit_everybody
    """The rule that decides which users' tasks the machine runs."""
    ad: MachineAd | None = None
    """The machine's attributes and its owner's policy; None: its capacity alone."""
    queues: NodeQueues = field(default_factory=NodeQueues)
    """Those of the cluster, which may change while the node runs."""
    free_port: Callable[[], int] = no_port
    """Returns a port on which nothing listens here, for the ranks of a parallel job to meet."""
    owner: OwnerSteps | None = None
    """When tasks give way to the machine's owner; None: never."""
    unused_factor: float = 1.0
    """`[reservations] unused_factor`."""
    no_show_charge: float = NO_SHOW_CHARGE
    """`[reservations] no_show_charge`."""
    reservable: Reservable = UNLIMITED
    """`[machine] reservable` and `reservable_by`."""
    reserves_above: bool = False
    """Whether `[reservations] policy` is `above`: tasks that run are evicted for new bookings."""

    @property
    def given(self) -> Resources:
        """Return what jobs may have of the machine, by what is set of its pool."""
        return self.queues.given(self.capacity)

    @property
    def ad_now(self) -> MachineAd | None:
        """Return its attributes and policy with these amounts."""
        given = self.given
        if self.ad is None or given is self.capacity:
            return self.ad
        return with_amounts(self.ad, given)

    @property
    def rate(self) -> float:
        """Return the largest charge in a second, without urgency."""
        return rate_of(self.rule, self.capacity, self.speed, self.ad)
