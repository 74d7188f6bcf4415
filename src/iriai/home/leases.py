"""How long a home waits for attempts on other machines before it repeats them.

docs/spec/002, section 3, has the rules and their proof. A lease here counts from when its `Run` was
sent, and from each answer to the machine's `Renew`: later than the node counts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from iriai.model.ids import AttemptId
from iriai.model.job import DEFAULT_LEASE_S, JobSpec
from iriai.model.records import AttemptResult
from iriai.model.state import EndCause
from iriai.model.usage import Usage

CLOCKS = 1.01
"""Two clocks that count the same time differ by less: a hundredth is 14 minutes a day."""
KILL_MIN_S = 2.0
"""However short a job's grace: a launcher that is there kills a tree within this."""


def lease_of(spec: JobSpec) -> float:
    """How long an attempt of the job goes on without word from its home."""
    return DEFAULT_LEASE_S if spec.lease_s is None else spec.lease_s


def patience_s(spec: JobSpec) -> float:
    """How long nothing may be heard of an attempt until it is over for sure."""
    return lease_of(spec) * CLOCKS + max(spec.kill_grace_s, KILL_MIN_S)


def lost_result(
    attempt: AttemptId, machine: str, spec: JobSpec, now_wall_s: float
) -> AttemptResult:
    """The row of an attempt that was not heard of for the time of its lease."""
    message = f"{machine} was not heard for the time of its lease, {lease_of(spec):g} s"
    ended = (now_wall_s, now_wall_s, 0.0, 0.0)
    return AttemptResult(attempt, machine, EndCause.LOST, None, None, Usage(), *ended, message)


class _Machine:
    """What is leased to one machine."""

    def __init__(self) -> None:
        self.answered_s: float | None = None
        self.attempts: dict[AttemptId, tuple[float, float]] = {}
        """When its `Run` was sent, and the patience with it."""
        self.check_s: float | None = None
        """When it is looked at next: no attempt is over before."""

    def over_s(self, sent_s: float, patience_s: float) -> float:
        """When an attempt is over if nothing more is heard."""
        return max(sent_s, self.answered_s or sent_s) + patience_s


class Leases:
    """By machine. The work is one step for each attempt, and a look at a machine once a lease."""

    def __init__(self) -> None:
        self._machines: dict[str, _Machine] = {}
        self._checks: list[tuple[float, str]] = []
        """A heap; entries that their machine does not name are over."""

    def begin(self, machine: str, attempt: AttemptId, spec: JobSpec, now_s: float) -> None:
        """Its `Run` is sent, or the home came back and finds it in its store."""
        known = self._machines.get(machine)
        if known is None:
            known = self._machines[machine] = _Machine()
        known.attempts[attempt] = (now_s, patience_s(spec))
        self._check_by(machine, known, known.over_s(*known.attempts[attempt]))

    def end(self, machine: str, attempt: AttemptId) -> None:
        """Its end is known."""
        known = self._machines.get(machine)
        if known is not None:
            known.attempts.pop(attempt, None)
            if not known.attempts:
                del self._machines[machine]

    def answer(self, machine: str, now_s: float) -> None:
        """The machine asked for renewal, and is answered now."""
        known = self._machines.get(machine)
        if known is not None:
            known.answered_s = now_s

    def of(self, machine: str) -> Iterable[AttemptId]:
        """The attempts there whose end is not known."""
        known = self._machines.get(machine)
        return tuple(known.attempts) if known else ()

    def machines(self) -> dict[str, tuple[AttemptId, ...]]:
        """Every machine with the attempts there."""
        return {name: tuple(known.attempts) for name, known in self._machines.items()}

    @property
    def next_s(self) -> float | None:
        """When something may be over, on the steady clock; None: nothing will be."""
        checks = self._checks
        while checks:
            check_s, name = checks[0]
            known = self._machines.get(name)
            if known is not None and known.check_s == check_s:
                return check_s
            heappop(checks)
        return None

    def over(self, now_s: float) -> list[tuple[str, AttemptId]]:
        """The attempts that are over by now, with their machine; each is named until its `end`."""
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
