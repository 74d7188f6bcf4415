"""What becomes of background tasks once the owner uses the machine, and when.

docs/spec/016, section 3; the ways are those of paper 003, section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from math import inf

from iriai.model.admission_rules import ALL
from iriai.model.owner import NO_CONDITIONS, SensorSettings

ROUNDING_S = 1e-6
"""What differences of moments are wrong by: a step is due at the moment that was told for it."""


class OwnerStep(IntEnum):
    """How far background tasks give way; each includes those before."""

    NONE = 0
    SUSPEND = 1
    """They are frozen."""
    RECLAIM = 2
    """Their memory is given back to the owner."""
    VACATE = 3
    """They are ended with their grace, and wait again."""
    DISCARD = 4
    """They are ended at once, and wait again."""


@dataclass(frozen=True, slots=True)
class OwnerExpressions:
    """The texts of the steps that are ClassAd expressions; None: a delay, or never."""

    suspend: str | None = None
    resume: str | None = None
    """`continue` in the machine's file."""
    reclaim: str | None = None
    vacate: str | None = None
    discard: str | None = None

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """The steps that are expressions, by their keys in the machine's file."""
        steps = asdict(self).items()
        named = (("continue" if name == "resume" else name, text) for name, text in steps)
        return tuple((name, text) for name, text in named if text is not None)


@dataclass(frozen=True, slots=True)
class OwnerSteps:
    """The steps of a machine, in seconds since its owner began to use it; infinite: never."""

    suspend_s: float = inf
    reclaim_s: float = inf
    vacate_s: float = inf
    discard_s: float = inf
    continue_s: float = 300.0
    """How long after the last sign the machine is in use."""
    lowers: bool = True
    """Whether background tasks run in the idle class as long as they run."""
    exempt: tuple[str, ...] = ()
    """Users whose tasks never give way; `ALL`: those of all."""
    conditions: SensorSettings = NO_CONDITIONS
    """Which conditions of the machine are signs."""
    expressions: OwnerExpressions | None = None
    """The steps that are expressions; their delays are infinite. None: all are delays."""
    busy_load: float = 0.5
    """The load of others from which `CpuBusyTime` counts, for expressions alone."""

    @property
    def has_steps(self) -> bool:
        """Return whether tasks ever give way."""
        if self.expressions is not None:
            return True
        return min(self.suspend_s, self.reclaim_s, self.vacate_s, self.discard_s) < inf

    def exempts(self, user: str) -> bool:
        """Return whether the tasks of a user never give way."""
        return user in self.exempt or ALL in self.exempt

    @property
    def suspends_at_once(self) -> bool:
        """Return whether a sign suspends without a further thought."""
        return self.suspend_s <= 0.0

    def step(self, used_s: float) -> OwnerStep:
        """Return the step that is due when the machine has been in use for that long."""
        delays = (
            (self.suspend_s, OwnerStep.SUSPEND),
            (self.reclaim_s, OwnerStep.RECLAIM),
            (self.vacate_s, OwnerStep.VACATE),
            (self.discard_s, OwnerStep.DISCARD),
        )
        due = [step for delay_s, step in delays if delay_s <= used_s + ROUNDING_S]
        return max(due, default=OwnerStep.NONE)

    def next_step_s(self, used_s: float) -> float:
        """Return after how long in use the next step is due; infinite: none is."""
        delays_s = (self.suspend_s, self.reclaim_s, self.vacate_s, self.discard_s)
        return min((delay_s for delay_s in delays_s if delay_s > used_s + ROUNDING_S), default=inf)


PROFILES: Mapping[str, OwnerSteps] = {
    "desk": OwnerSteps(suspend_s=0.0, vacate_s=600.0, continue_s=300.0),
    "laptop": OwnerSteps(
        suspend_s=0.0,
        vacate_s=120.0,
        continue_s=300.0,
        conditions=SensorSettings(on_battery=True),
    ),
    "classroom": OwnerSteps(suspend_s=0.0, vacate_s=0.0, continue_s=900.0),
}
"""By the name that a machine's file has; `none` is no policy."""
