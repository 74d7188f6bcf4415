"""Leases: how long a home waits for attempts on other machines before it repeats them.

docs/spec/002, section 3, has the rules and their proof. A lease here counts from the time its `Run`
was sent, and from each answer to the machine's `Renew`: later than the node counts it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from iriai.model.ids import AttemptId
from iriai.model.job import DEFAULT_LEASE_S, JobSpec
from iriai.model.reason import Reason
from iriai.model.records import AttemptResult
from iriai.model.state import EndCause
from iriai.model.units import format_size
from iriai.model.usage import Usage

ENDS_KEPT = 50
"""Ends that are kept for each machine: older problems may have been repaired."""
KILLED_MIN = 2
"""Tasks that were killed below what they had claimed, before it is reported."""
AT_ONCE_S = 1.0
"""A task that fails earlier counts as failed at once."""
AT_ONCE_MIN = 5
JOBS_MIN = 2
"""Failures at once in a row, and their jobs, before it is reported: one job may fail everywhere."""
TIMED_MIN = 3
"""Tasks of one array that ended here, and on other machines, before their times are compared."""
SLOWER_MIN = 1.5
"""Ratio of run times that is reported: less is noise of caches and other tasks."""
ARRAYS_KEPT = 32
SIGKILL = 9


@dataclass(slots=True)
class _Times:
    """Run times of one array's completed tasks, by machine."""

    count: dict[str, int] = field(default_factory=dict)
    sum_s: dict[str, float] = field(default_factory=dict)

    def slower(self, machine: str) -> float:
        """Return the ratio of run times there and elsewhere; 0: too few tasks ended."""
        here = self.count.get(machine, 0)
        others = sum(self.count.values()) - here
        if min(here, others) < TIMED_MIN:
            return 0.0
        here_s = self.sum_s[machine] / here
        others_s = (sum(self.sum_s.values()) - self.sum_s[machine]) / others
        return here_s / others_s if others_s > 0 else 0.0


class MachineStats:
    """The last ends of tasks on each machine.

    A signature proves the author of a report, not its truth. Nothing is decided by these
    statistics: `iriai nodes` shows them to people, who may know other reasons.
    """

    def __init__(self) -> None:
        self.begun = 0
        """Attempts that began, on all machines."""
        self.refusals: dict[str, int] = {}
        """Refused claims, by rule."""
        self._ends: dict[str, deque[tuple[AttemptResult, int]]] = {}
        """Results, and the memory that was claimed."""
        self._arrays: dict[int, _Times] = {}

    def refused(self, reason: Reason) -> None:
        """Count a claim that a machine refused."""
        self.refusals[reason.rule] = self.refusals.get(reason.rule, 0) + 1

    def ended(self, result: AttemptResult, spec: JobSpec, ranks: int = 1) -> None:
        """Count an attempt that ended, or a seat of one, with `ranks` ranks."""
        machine = result.machine
        ends = self._ends.get(machine)
        if ends is None:
            ends = self._ends[machine] = deque(maxlen=ENDS_KEPT)
        ends.append((result, spec.resources.memory_bytes * ranks))
        if spec.is_array and result.cause is EndCause.COMPLETED:
            number = result.attempt.number
            times = self._arrays.get(number)
            if times is None:
                times = self._arrays[number] = _Times()
                if len(self._arrays) > ARRAYS_KEPT:
                    del self._arrays[next(iter(self._arrays))]
            times.count[machine] = times.count.get(machine, 0) + 1
            times.sum_s[machine] = times.sum_s.get(machine, 0.0) + result.elapsed_s

    def forget(self, machine: str) -> None:
        """Forget a machine."""
        self._ends.pop(machine, None)

    def differences(self, machine: str) -> list[str]:
        """Return, as text, how the machine differs from what it reports of itself."""
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
            f"{len(killed)} tasks were killed there below the memory they had claimed, the last "
            f"with {format_size(peak)} of {format_size(claimed)}: it may have less than it "
            "reports"
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
        return f"the last {count} tasks, of {len(jobs)} jobs, failed there within moments"

    def _slower(self, machine: str) -> str:
        for times in reversed(self._arrays.values()):
            slower = times.slower(machine)
            if slower >= SLOWER_MIN:
                return f"tasks of one array took {slower:.1f} times as long there as elsewhere"
            if slower:
                return ""
        return ""


CLOCKS = 1.01
"""Bound of the ratio of two clocks' rates: a hundredth is 14 minutes a day."""
KILL_MIN_S = 2.0
"""Shortest time for a kill, for any grace: a running launcher kills a tree within it."""


def lease_of(spec: JobSpec) -> float:
    """Return how long an attempt of the job goes on without contact with its home."""
    return DEFAULT_LEASE_S if spec.lease_s is None else spec.lease_s


def patience_s(spec: JobSpec) -> float:
    """Return the time without contact after which an attempt is certainly over."""
    return lease_of(spec) * CLOCKS + max(spec.kill_grace_s, KILL_MIN_S)


def lost_result(
    attempt: AttemptId, machine: str, spec: JobSpec, now_wall_s: float
) -> AttemptResult:
    """Return the result of an attempt whose lease expired without contact."""
    message = f"{machine} had no contact for the time of its lease, {lease_of(spec):g} s"
    ended = (now_wall_s, now_wall_s, 0.0, 0.0)
    return AttemptResult(attempt, machine, EndCause.LOST, None, None, Usage(), *ended, message)


class _Machine:
    """The leases of one machine."""

    def __init__(self) -> None:
        self.answered_s: float | None = None
        self.attempts: dict[AttemptId, tuple[float, float]] = {}
        """The time of its `Run`, and how long it may be without contact."""
        self.check_s: float | None = None
        """The time of the next check: no attempt is over before."""

    def over_s(self, sent_s: float, patience_s: float) -> float:
        """Return when an attempt is over without further contact."""
        return max(sent_s, self.answered_s or sent_s) + patience_s


class Leases:
    """The leases by machine. Each attempt costs one step, each machine one check per lease."""

    def __init__(self) -> None:
        self._machines: dict[str, _Machine] = {}
        self._checks: list[tuple[float, str]] = []
        """A heap; entries that their machine no longer names are void."""

    def begin(self, machine: str, attempt: AttemptId, spec: JobSpec, now_s: float) -> None:
        """Watch an attempt whose `Run` is sent, or which a restarted home finds in its store."""
        known = self._machines.get(machine)
        if known is None:
            known = self._machines[machine] = _Machine()
        known.attempts[attempt] = (now_s, patience_s(spec))
        self._check_by(machine, known, known.over_s(*known.attempts[attempt]))

    def end(self, machine: str, attempt: AttemptId) -> None:
        """Stop watching an attempt whose end is known."""
        known = self._machines.get(machine)
        if known is not None:
            known.attempts.pop(attempt, None)
            if not known.attempts:
                del self._machines[machine]

    def answer(self, machine: str, now_s: float) -> None:
        """Note that the machine's request for renewal is answered now."""
        known = self._machines.get(machine)
        if known is not None:
            known.answered_s = now_s

    def of(self, machine: str) -> Iterable[AttemptId]:
        """Return the attempts on a machine whose end is not known."""
        known = self._machines.get(machine)
        return tuple(known.attempts) if known else ()

    def machines(self) -> dict[str, tuple[AttemptId, ...]]:
        """Return every machine with the attempts there."""
        return {name: tuple(known.attempts) for name, known in self._machines.items()}

    @property
    def next_s(self) -> float | None:
        """Return the steady time at which a lease may next be over; None: there is none."""
        checks = self._checks
        while checks:
            check_s, name = checks[0]
            known = self._machines.get(name)
            if known is not None and known.check_s == check_s:
                return check_s
            heappop(checks)
        return None

    def over(self, now_s: float) -> list[tuple[str, AttemptId]]:
        """Return (machine, attempt) of each expired lease; each is returned until its `end`."""
        found: list[tuple[str, AttemptId]] = []
        while (check_s := self.next_s) is not None and check_s <= now_s:
            _, name = heappop(self._checks)
            known = self._machines[name]
            known.check_s = None
            for attempt, sent in known.attempts.items():
                over_s = known.over_s(*sent)
                if over_s <= now_s:
                    found.append((name, attempt))
                else:
                    self._check_by(name, known, over_s)
        return found

    def _check_by(self, name: str, known: _Machine, over_s: float) -> None:
        if known.check_s is None or over_s < known.check_s:
            known.check_s = over_s
            heappush(self._checks, (over_s, name))
