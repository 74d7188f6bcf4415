"""What a home sees of the machines that run its tasks, beside what they say of themselves.

A signature proves who says something, not that it is true. Nothing is decided by this: it is shown
to people (`iriai nodes`), who know what else may be the reason.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from iriai.model.job import JobSpec
from iriai.model.reason import Reason
from iriai.model.records import AttemptResult
from iriai.model.state import EndCause
from iriai.model.units import format_size

ENDS_KEPT = 50
"""Of each machine: what was wrong longer ago may have been mended."""
KILLED_MIN = 2
"""Tasks that were killed below what they had claimed, before it is worth a word."""
AT_ONCE_S = 1.0
"""A task that fails sooner did hardly run."""
AT_ONCE_MIN = 5
JOBS_MIN = 2
"""So many in a row that failed at once, of so many jobs: one job may fail everywhere."""
TIMED_MIN = 3
"""Tasks of one array that ended here, and elsewhere, before their times are compared."""
SLOWER_MIN = 1.5
"""Times as long: less is noise of caches and neighbours."""
ARRAYS_KEPT = 32
SIGKILL = 9


@dataclass(slots=True)
class _Times:
    """Of one array's completed tasks, by machine."""

    count: dict[str, int] = field(default_factory=dict)
    sum_s: dict[str, float] = field(default_factory=dict)

    def slower(self, machine: str) -> float:
        """How many times as long as elsewhere they took there; 0: not enough is known."""
        here = self.count.get(machine, 0)
        others = sum(self.count.values()) - here
        if min(here, others) < TIMED_MIN:
            return 0.0
        here_s = self.sum_s[machine] / here
        others_s = (sum(self.sum_s.values()) - self.sum_s[machine]) / others
        return here_s / others_s if others_s > 0 else 0.0


class MachineStats:
    """The last ends of each machine; see the module."""

    def __init__(self) -> None:
        self.begun = 0
        """Attempts that began, on all machines."""
        self.refusals: dict[str, int] = {}
        """Of claims, by the rule that said no."""
        self._ends: dict[str, deque[tuple[AttemptResult, int]]] = {}
        """Results, and the memory that was claimed."""
        self._arrays: dict[int, _Times] = {}

    def refused(self, reason: Reason) -> None:
        """A machine refused a claim."""
        self.refusals[reason.rule] = self.refusals.get(reason.rule, 0) + 1

    def ended(self, result: AttemptResult, spec: JobSpec) -> None:
        """An attempt ended."""
        ends = self._ends.setdefault(result.machine, deque(maxlen=ENDS_KEPT))
        ends.append((result, spec.resources.memory_bytes))
        if spec.is_array and result.cause is EndCause.COMPLETED:
            number = result.attempt.number
            times = self._arrays.get(number)
            if times is None:
                times = self._arrays[number] = _Times()
                if len(self._arrays) > ARRAYS_KEPT:
                    del self._arrays[next(iter(self._arrays))]
            machine = result.machine
            times.count[machine] = times.count.get(machine, 0) + 1
            times.sum_s[machine] = times.sum_s.get(machine, 0.0) + result.elapsed_s

    def forget(self, machine: str) -> None:
        """Nothing more is heard of a machine."""
        self._ends.pop(machine, None)

    def differences(self, machine: str) -> list[str]:
        """What does not go with a machine as it says it is, in words."""
        ends = list(self._ends.get(machine, ()))
        found = (self._killed(ends), self._at_once(ends), self._slower(machine))
        return [text for text in found if text]

    def _killed(self, ends: list[tuple[AttemptResult, int]]) -> str:
        killed = [
            (result.usage.memory_peak_bytes, claimed)
            for result, claimed in ends
            if result.cause is EndCause.FAILED
            and result.signal == SIGKILL
            and 0 < result.usage.memory_peak_bytes < claimed
        ]
        if len(killed) < KILLED_MIN:
            return ""
        peak, claimed = killed[-1]
        return (
            f"{len(killed)} tasks were killed there below the memory they had claimed, the last"
            f" with {format_size(peak)} of {format_size(claimed)}: it may have less than it says"
        )

    def _at_once(self, ends: list[tuple[AttemptResult, int]]) -> str:
        jobs: dict[int, None] = {}
        count = 0
        for result, _ in reversed(ends):
            is_wrong = result.cause in (EndCause.FAILED, EndCause.LOST)
            if not is_wrong or result.elapsed_s >= AT_ONCE_S:
                break
            count += 1
            jobs[result.attempt.number] = None
        if count < AT_ONCE_MIN or len(jobs) < JOBS_MIN:
            return ""
        return f"the last {count} tasks, of {len(jobs)} jobs, failed there at once"

    def _slower(self, machine: str) -> str:
        for times in reversed(self._arrays.values()):
            slower = times.slower(machine)
            if slower >= SLOWER_MIN:
                return f"tasks of one array took {slower:.1f} times as long there as elsewhere"
            if slower:
                return ""
        return ""
