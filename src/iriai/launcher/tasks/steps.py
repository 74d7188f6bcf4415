"""Steps: processes started beside a seat that runs, each once (docs/spec/011, section 8).

A step has the seat's user, control group, namespaces, limits and environment, and streams of its
own. It ends with the seat; the seat goes on without it. What a step leaves running belongs to the
seat. Steps are remembered as long as their seat, and their ends until the daemon has stored them.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress

import msgspec

from iriai.launcher.contract.messages import EXIT_NOT_RUN, Alive, Exit, StartStep
from iriai.launcher.spawn.spawn import NO_PAYLOAD, Prepared, Spawner, SpawnError, explain
from iriai.launcher.spawn.streams import NO_ENDS, Streams
from iriai.launcher.system.timers import Timers
from iriai.launcher.tasks.admission import NotStarted
from iriai.launcher.tasks.task import BLOCK_BYTES, LimitExceeded, RunningTask
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.sizes import command_problem
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.system.clock import steady_s, wall_s
from iriai.system.passwd_cache import Login
from iriai.system.procfs import all_processes

STEPS_MAX = 65_536
"""Of one seat, in all: each was numbered by the job's home."""
LIVE_MAX = 512
"""Of one seat, at a time: each has up to three descriptors here, and three at the daemon."""
ENDS_MAX = 512
"""Ends of steps of one seat that the daemon has not stored; it asks for no older ones."""
LOOK_AGAIN_S = 0.05
"""Between two attempts to kill what is left of a step's session."""
SEAT_OVER = "the attempt beside which it ran has ended"


class RunningStep(msgspec.Struct, eq=False):
    """A step between its spawn and the end of its main process."""

    attempt: AttemptId
    spec: JobSpec
    """The job's, with the step's command and streams."""
    seat: RunningTask
    rank: int
    pid: int = 0
    started_wall_s: float = 0.0
    begun_s: float = 0.0
    """How long the seat had run by then, unfrozen."""
    is_over: bool = False
    cause: EndCause | None = None
    """Why it is being ended, where it did not end by itself."""
    message: str = ""
    kill_at_s: float | None = None
    """When SIGKILL follows; None until the end is requested."""

    @property
    def alive(self) -> Alive:
        """The step as the daemon knows it."""
        return Alive(self.attempt, self.pid, self.started_wall_s)

    def exit(self, status: int, usage: resource.struct_rusage, failure: SpawnError | None) -> Exit:
        """Return the end of its main process."""
        code = os.waitstatus_to_exitcode(status)
        exit_code, signal_number = (code, None) if code >= 0 else (None, -code)
        cause, message = self.cause, self.message
        if failure is not None and cause is None:
            cause = EndCause.FAILED
            exit_code, message = explain(failure, self.spec, self.seat.order, self.rank)
        elif cause is None and status and self.seat.is_ending:
            cause, message = EndCause.CANCELLED, SEAT_OVER
        elif cause is None:
            cause = EndCause.FAILED if status else EndCause.COMPLETED
        blocks = usage.ru_inblock * BLOCK_BYTES, usage.ru_oublock * BLOCK_BYTES
        used = Usage(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, *blocks)
        elapsed_s = max(0.0, self.seat.unfrozen_s(steady_s()) - self.begun_s)
        return Exit(
            self.attempt,
            cause,
            exit_code,
            signal_number,
            used,
            self.started_wall_s,
            wall_s(),
            elapsed_s,
            message,
        )


class _Seat:
    """The steps of one seat."""

    def __init__(self) -> None:
        self.ordered: set[int] = set()
        """Numbers of all that were ordered."""
        self.live: dict[AttemptId, RunningStep] = {}


OptionsOf = Callable[[JobSpec, Login], tuple[str, ...]]
"""Returns the helper's options for a specification and its user."""


class Steps:
    """The steps of all seats that run here."""

    def __init__(
        self,
        spawner: Spawner,
        timers: Timers,
        streams: Streams,
        running: Callable[[AttemptId], RunningTask | None],
        record: Callable[[str, Exception], str],
    ) -> None:
        """`running` returns the seat of that name, if it runs.

        `record` counts an internal error in doing what it is told, and returns words for people.
        """
        self._spawner = spawner
        self._timers = timers
        self._record = record
        self._streams = streams
        self._running = running
        self.seats: dict[AttemptId, _Seat] = {}
        """Those that run and have had steps."""
        self._by_pid: dict[int, RunningStep] = {}
        self._reaped: list[tuple[RunningStep, int, resource.struct_rusage]] = []
        self._ended: dict[AttemptId, dict[AttemptId, Exit]] = {}
        """Ends that the daemon has not stored, by seat."""
        self._news: list[Exit] = []

    def __len__(self) -> int:
        return len(self._by_pid)

    def __contains__(self, pid: int) -> bool:
        """Return whether `pid` is the main process of a step that was not reaped."""
        return pid in self._by_pid

    def alive(self) -> tuple[Alive, ...]:
        """Return the steps that run."""
        return tuple(step.alive for step in self._by_pid.values())

    def ended(self) -> tuple[Exit, ...]:
        """Return the ends that the daemon has not stored."""
        return tuple(end for ends in self._ended.values() for end in ends.values())

    def drain_exits(self) -> list[Exit]:
        """Return the ends since the last call, and those that were asked for again."""
        news, self._news = self._news, []
        return news

    def pids_of(self, seat: AttemptId) -> list[int]:
        """Return the main processes of a seat's steps that were not reaped."""
        found = self.seats.get(seat)
        return [] if found is None else [step.pid for step in found.live.values()]

    def has_live(self, seat: AttemptId) -> bool:
        """Return whether a step of `seat` was not reaped."""
        found = self.seats.get(seat)
        return found is not None and bool(found.live)

    # --- orders ----------------------------------------------------------------------------------

    def start(self, order: StartStep) -> None:
        """Start a step, or report the end of one that cannot be started, or that is over."""
        attempt = order.attempt
        end = self._ended.get(attempt.of_seat, {}).get(attempt)
        if end is not None:
            self._news.append(end)
            return
        seat = self.seats.get(attempt.of_seat)
        if seat is not None and attempt.step in seat.ordered:
            return
        try:
            self._start(order, self._seat_for(order, seat))
        except NotStarted as why:
            self._not_started(attempt, why)
        except Exception as error:  # noqa: BLE001 - whatever it is, it costs this step alone
            if isinstance(error, OSError | ValueError):
                text = f"the step could not be started: {getattr(error, 'strerror', None) or error}"
            else:
                text = self._record(f"starting {attempt}", error)
            self._not_started(attempt, NotStarted(EndCause.FAILED, text))

    def terminate(self, attempt: AttemptId, reason: LimitExceeded, grace_s: float) -> None:
        """Send SIGTERM to a step's session, and SIGKILL after `grace_s`."""
        seat = self.seats.get(attempt.of_seat)
        step = seat.live.get(attempt) if seat is not None else None
        if step is None:
            return
        now_s = steady_s()
        if step.cause is None:
            step.cause, step.message = reason
        kill_at_s = now_s + max(grace_s, 0.0)
        if step.kill_at_s is not None and step.kill_at_s <= kill_at_s:
            return
        if step.kill_at_s is None and kill_at_s > now_s:
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process must get it too
                _signal(step, number)
        step.kill_at_s = kill_at_s
        self._timers.add(kill_at_s, step, lambda late_s: self._kill(step, late_s))

    def discard(self, attempt: AttemptId) -> None:
        """Forget the end of a step, which the daemon has stored, and close its streams."""
        ends = self._ended.get(attempt.of_seat)
        if ends is not None and ends.pop(attempt, None) is not None and not ends:
            del self._ended[attempt.of_seat]
        self._streams.close(attempt)

    # --- ends ------------------------------------------------------------------------------------

    def reap(self, pid: int) -> None:
        """Reap the main process of a step; `finish` follows."""
        step = self._by_pid.pop(pid)
        _, status, usage = os.wait4(pid, 0)
        step.is_over = True
        step.seat.count(usage)
        del self.seats[step.attempt.of_seat].live[step.attempt]
        self._reaped.append((step, status, usage))

    @property
    def has_reaped(self) -> bool:
        """Whether `finish` has to be called."""
        return bool(self._reaped)

    def finish(self, failures: dict[int, SpawnError]) -> None:
        """Report the ends of all that were reaped; `failures` has what helpers reported, by pid."""
        reaped, self._reaped = self._reaped, []
        for step, status, usage in reaped:
            self._end(step.exit(status, usage, failures.pop(step.pid, None)))

    def kill(self, seat: AttemptId) -> None:
        """Kill the main processes of a seat's steps, wherever they are by now."""
        found = self.seats.get(seat)
        for step in found.live.values() if found is not None else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(step.pid, signal.SIGKILL)

    def seat_ended(self, seat: AttemptId) -> None:
        """Forget which steps a seat had: no further one can be ordered."""
        self.seats.pop(seat, None)

    # --- within ----------------------------------------------------------------------------------

    def _seat_for(self, order: StartStep, seat: _Seat | None) -> RunningTask:
        """Return the seat beside which a step may be started; raise `NotStarted`."""
        task = self._running(order.attempt.of_seat)
        if task is None or task.is_ending:
            raise NotStarted(EndCause.REFUSED, "the attempt does not run here, or is being ended")
        if seat is not None and len(seat.live) >= LIVE_MAX:
            words = f"{len(seat.live)} steps run on this seat; the limit is LIVE_MAX = {LIVE_MAX}"
            raise NotStarted(EndCause.REFUSED, words)
        if seat is not None and len(seat.ordered) >= STEPS_MAX:
            words = f"the seat has had {STEPS_MAX} steps, and may have STEPS_MAX = {STEPS_MAX}"
            raise NotStarted(EndCause.REFUSED, words)
        first = task.order.attempt.rank
        if not first <= order.rank < first + task.order.ranks:
            raise NotStarted(EndCause.FAILED, f"the seat has no rank {order.rank}")
        if not order.command:
            raise NotStarted(EndCause.FAILED, "there is no command")
        if problem := command_problem(order.command):
            raise NotStarted(EndCause.FAILED, str(problem))
        return task

    def _start(self, order: StartStep, task: RunningTask) -> None:
        attempt, spawner = order.attempt, self._spawner
        prepared = _of_step(task.prepared, order, spawner.options)
        seat = self.seats.setdefault(attempt.of_seat, _Seat())
        seat.ordered.add(attempt.step)
        step = RunningStep(attempt, prepared.spec, task, order.rank)
        step.started_wall_s, step.begun_s = wall_s(), task.unfrozen_s(steady_s())
        ends = NO_ENDS
        try:
            ends = self._streams.make(attempt, prepared.spec, prepared.login, order.rank)
            helper = spawner.ready(
                prepared,
                task.order,
                spawner.mark_of(task.attempt),
                task.container.joins,
                NO_PAYLOAD,
                task.scratch,
                -1 if task.namespace is None else task.namespace.fd,
                ends,
                order.rank,
            )
            step.pid = spawner.start(helper, asked=False)
        except Exception:
            self._streams.close(attempt)
            raise
        finally:
            ends.close()
        seat.live[attempt] = self._by_pid[step.pid] = step

    def _not_started(self, attempt: AttemptId, why: NotStarted) -> None:
        now_s = wall_s()
        code = EXIT_NOT_RUN if why.cause is EndCause.FAILED else None
        self._end(Exit(attempt, why.cause, code, None, Usage(), now_s, now_s, 0.0, why.message))

    def _end(self, end: Exit) -> None:
        self._news.append(end)
        ends = self._ended.setdefault(end.attempt.of_seat, {})
        ends[end.attempt] = end
        if len(ends) > ENDS_MAX:
            self.discard(next(iter(ends)))

    def _kill(self, step: RunningStep, now_s: float) -> None:
        """Send SIGKILL to the step's session, repeatedly until its main process was reaped."""
        step.seat.container.let_end(_signal(step, signal.SIGKILL))
        self._timers.add(now_s + LOOK_AGAIN_S, step, lambda later_s: self._kill(step, later_s))


def _of_step(prepared: Prepared, order: StartStep, options: OptionsOf) -> Prepared:
    """Return what a job's tasks share, with the command and streams of a step."""
    spec = msgspec.structs.replace(
        prepared.spec,
        command=order.command,
        script="",
        stdin="",
        interaction=order.interaction,
        takes_input=order.takes_input,
        window=order.window,
    )
    environment = prepared.environment
    if order.terminal:
        environment = {**environment, b":TERM": order.terminal.encode(errors="replace")}
    return prepared._replace(
        spec=spec,
        environment=environment,
        options=options(spec, prepared.login),
        command=order.command,
        script=b"",
        stdin=b"",
    )


def _signal(step: RunningStep, number: signal.Signals) -> list[int]:
    """Signal the step's session, and return it: what left it belongs to the seat alone."""
    found = [each.pid for each in all_processes() if each.session == step.pid]
    pids = list(dict.fromkeys((step.pid, *found)))
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return pids
