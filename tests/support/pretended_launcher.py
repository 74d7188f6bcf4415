"""A launcher that starts nothing: it remembers as a real one does, and ends tasks when told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.effects import (
    AttemptExited,
    AttemptsSampled,
    AttemptStarted,
    LauncherAttached,
    LauncherEvent,
)

SUCCESS = (EndCause.COMPLETED, 0, None)


class Work(NamedTuple):
    """What a task does."""

    run_s: float = 10.0
    end: tuple[EndCause, int | None, int | None] = SUCCESS
    """Cause, exit code and signal, if nothing ends it earlier."""
    stubborn: bool = False
    """It takes its whole grace when asked to end."""


class Process(NamedTuple):
    """A task under way."""

    spec: JobSpec
    work: Work
    started_s: float
    end_s: float
    end: tuple[EndCause, int | None, int | None]


@dataclass
class PretendedLauncher:
    """Knows of each attempt: runs, ended, or forgotten. Its memory is its journal."""

    wall_s: float
    """The wall clock at second 0 of the steady one."""
    works: dict[int, Work] = field(default_factory=dict)
    """By job number; others do `default`."""
    default: Work = field(default_factory=Work)
    running: dict[AttemptId, Process] = field(default_factory=dict)
    exits: dict[AttemptId, AttemptExited] = field(default_factory=dict)
    forgotten: dict[AttemptId, None] = field(default_factory=dict)
    starts: list[AttemptId] = field(default_factory=list)
    """Every start there ever was: the judge's file."""
    refuses: str = ""
    """Why it starts nothing at present; empty: it does."""
    is_up: bool = True

    def launch(self, attempt: AttemptId, spec: JobSpec, now_s: float) -> list[LauncherEvent]:
        """Start an attempt, or say again what is known of it."""
        if attempt in self.running:
            return [AttemptStarted(attempt, self.wall_s + self.running[attempt].started_s)]
        if attempt in self.exits:
            return [self.exits[attempt]]
        if attempt in self.forgotten or self.refuses:
            return [self._refused(attempt, self.refuses or "it ended here before", now_s)]
        others = [other for other in self.running if other.task == attempt.task]
        assert not others, f"{attempt} is started while {others[0]} runs"
        work = self.works.get(attempt.number, self.default)
        end_s, end = now_s + work.run_s, work.end
        if spec.time_limit_s is not None and spec.time_limit_s < work.run_s:
            grace_s = spec.kill_grace_s if work.stubborn else 0.0
            end_s = now_s + spec.time_limit_s + grace_s
            end = (EndCause.TIME_LIMIT, None, 15)
        self.running[attempt] = Process(spec, work, now_s, end_s, end)
        self.starts.append(attempt)
        return [AttemptStarted(attempt, self.wall_s + now_s)]

    def terminate(self, attempt: AttemptId, cause: EndCause, grace_s: float, now_s: float) -> None:
        """End an attempt: at once, or when its grace is over."""
        process = self.running.get(attempt)
        if process is not None:
            end_s = min(process.end_s, now_s + (grace_s if process.work.stubborn else 0.0))
            self.running[attempt] = process._replace(end_s=end_s, end=(cause, None, 15))

    def forget(self, attempt: AttemptId) -> None:
        """The end is stored."""
        if self.exits.pop(attempt, None) is not None:
            self.forgotten[attempt] = None

    def next_end_s(self) -> float | None:
        """When the next process ends."""
        return min((process.end_s for process in self.running.values()), default=None)

    def ends_until(self, now_s: float) -> list[LauncherEvent]:
        """The processes that have ended by now."""
        due = [attempt for attempt, process in self.running.items() if process.end_s <= now_s]
        return [self._exit(attempt, self.running.pop(attempt)) for attempt in due]

    def sample(self, now_s: float) -> LauncherEvent:
        """What runs has used a cpu each, all the time."""
        used = [(attempt, now_s - process.started_s) for attempt, process in self.running.items()]
        return AttemptsSampled(tuple((attempt, Usage(cpu_s)) for attempt, cpu_s in used))

    def die(self, now_s: float) -> None:
        """Everything that ran is killed by the next launcher, and known to be lost."""
        for attempt, process in self.running.items():
            lost = process._replace(end_s=now_s, end=(EndCause.LOST, None, None))
            self._exit(attempt, lost)
        self.running.clear()
        self.is_up = False

    def welcome(self) -> list[LauncherEvent]:
        """What a daemon is told when it connects."""
        alive = tuple((a, self.wall_s + p.started_s) for a, p in self.running.items())
        return [LauncherAttached(alive), *self.exits.values()]

    def _exit(self, attempt: AttemptId, process: Process) -> AttemptExited:
        elapsed_s = process.end_s - process.started_s
        started_wall_s = self.wall_s + process.started_s
        usage = Usage(elapsed_s * process.spec.resources.cpus)
        exit_ = AttemptExited(
            attempt,
            *process.end,
            usage,
            started_wall_s,
            started_wall_s + elapsed_s,
            elapsed_s,
            "",
        )
        self.exits[attempt] = exit_
        return exit_

    def _refused(self, attempt: AttemptId, why: str, now_s: float) -> AttemptExited:
        wall_s = self.wall_s + now_s
        refused = EndCause.REFUSED
        exit_ = AttemptExited(attempt, refused, None, None, Usage(), wall_s, wall_s, 0.0, why)
        self.exits[attempt] = exit_
        return exit_
