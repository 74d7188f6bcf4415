"""A simulated task in progress: when and how it will end."""

from __future__ import annotations

from math import inf

from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.state import EndCause
from iriai.sim.world.work import KILLED, TERMINATED, End, Work


class ProcessModel:
    """A process that ends by itself, or is asked to end and killed after its grace."""

    def __init__(
        self, attempt: AttemptId, spec: JobSpec, work: Work, started_s: float, speed: float
    ) -> None:
        self.attempt = attempt
        self.spec = spec
        self.work = work
        self.started_s = started_s
        run_s, self._own = work.outcome(spec, speed)
        self.own_end_s = started_s + run_s
        """When it ends if nobody ends it."""
        self.end_s, self.end = self.own_end_s, self._own
        """When and how it ends, its lease apart."""
        self.lease_s: float | None = None
        self.lease_end_s = inf
        """When it must be over, whatever else; no later than this unless the launcher sleeps."""
        self._asked_s = self._stop_s = inf
        """When it is first asked to end, and when it does so or is killed."""
        self._cause = EndCause.LOST
        self._signal = KILLED
        if spec.time_limit_s is not None and spec.time_limit_s < run_s:
            self.ask(EndCause.TIME_LIMIT, spec.kill_grace_s, started_s + spec.time_limit_s)

    @property
    def due_s(self) -> float:
        """The time of its end, as far as known."""
        return min(self.lease_end_s, self.end_s)

    def ask(self, cause: EndCause, grace_s: float, at_s: float) -> None:
        """Ask the process to end; a stubborn one is killed when the grace is over.

        The first cause stays; a later request can only shorten the grace.
        """
        if at_s < self._asked_s:
            self._asked_s, self._cause = at_s, cause
        if grace_s <= 0.0:
            stop_s, signal = at_s, KILLED
        elif self.work.stubborn:
            stop_s, signal = at_s + grace_s, KILLED
        else:
            stop_s, signal = at_s, TERMINATED
        if stop_s < self._stop_s:
            self._stop_s, self._signal = stop_s, signal
        self._foresee()

    def end_untended_s(self, since_s: float) -> float:
        """Return its end if the launcher has been away since then for ever."""
        return self.end_s if self._stop_s <= since_s else self.own_end_s

    def slept(self, since_s: float, now_s: float) -> None:
        """Account for a launcher that was stopped from `since_s` until now."""
        if self._stop_s <= since_s:
            return
        if self.own_end_s <= now_s:
            if self._asked_s > since_s:
                self._asked_s = inf
            self._stop_s = inf
        elif since_s < self._asked_s <= now_s:
            self._stop_s += now_s - self._asked_s
        elif self._stop_s <= now_s:
            self._stop_s = now_s
        self._foresee()

    def _foresee(self) -> None:
        if self._stop_s < self.own_end_s:
            self.end_s, self.end = self._stop_s, (self._cause, None, self._signal)
            return
        cause, exit_code, signal = self._own
        if self._asked_s < self.own_end_s:
            cause = self._cause
        self.end_s, self.end = self.own_end_s, (cause, exit_code, signal)


LOST: End = (EndCause.LOST, None, None)
"""Nobody saw how it ended."""
