"""Handlers of requests about job steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.requests.jobs.streams import AWAY_S, StreamHandlers
from iriai.daemon.server.connections import Handlers, RequestContext
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.tasks.stream_relay import StreamRelay
from iriai.home.job import JobState
from iriai.home.steps import machines_of
from iriai.jobs.queries import JobQueries
from iriai.model.ids import AttemptId, TaskId, parse_rank
from iriai.model.job import OUTPUTS, JobSpec
from iriai.model.problem import NotAllowed, NotFound, Refused, Unreachable, UsageProblem
from iriai.model.sizes import command_problem
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.protocol.messages.effects import StepChanged
from iriai.protocol.messages.steps import Step, StepEnded
from iriai.protocol.messages.streams import Input
from iriai.wire.exchange import Done
from iriai.wire.requests import NOT_STARTED, InputWritten, Outcome, OutputPiece
from iriai.wire.steps import (
    AwaitStep,
    EndStep,
    LeaveStep,
    NumberStep,
    OrderStep,
    ReadStep,
    StepNumbered,
    StepState,
    WriteStep,
)

ORIGINS_MAX = 8192
"""Steps of other machines whose origin is kept, before those are dropped that are over."""
SpeaksFor = Callable[[str, str, float], str]
"""Returns why a machine's word for a user does not count here; empty: it does."""
BEGIN_WAIT_S = 20.0
"""Time after which the client is asked to repeat its order: the machine may have restarted."""


class StepHandlers:
    """Handlers of requests about steps of this home's jobs."""

    def __init__(
        self,
        engine: Engine,
        queries: JobQueries,
        durability: Durability,
        streams: StreamHandlers,
        relay: StreamRelay,
        speaks_for: SpeaksFor,
    ) -> None:
        self._engine = engine
        self._speaks_for = speaks_for
        self._home = engine.machine.home
        self._steps = engine.machine.home.steps
        self._queries = queries
        self._durability = durability
        self._per_user = streams.per_user
        self._looks = streams.looks
        self._relay = relay
        self._waiting: dict[AttemptId, list[Pending[None]]] = {}
        self._counted: dict[AttemptId, str] = {}
        """Users of the steps that are not over."""
        self._heard_s: dict[AttemptId, float] = {}
        """When the client of each step that takes input asked something last."""
        self._origins: dict[AttemptId, str] = {}
        """The machine of the client of each step that is asked for on another."""
        self.handlers: Handlers = {
            NumberStep: self._number,
            OrderStep: self._order,
            AwaitStep: self._await,
            ReadStep: self._read,
            WriteStep: self._write,
            EndStep: self._end,
            LeaveStep: self._leave,
        }
        """By request; of clients here and, passed on by `StepTransit`, on other machines."""
        engine.routes.take(StepChanged, self._changed)

    # --- starts and ends -------------------------------------------------------------------------

    async def _number(self, asked: RequestContext, body: NumberStep) -> StepNumbered:
        named = parse_rank(body.id)
        number = named.job.number
        self._queries.require(number, asked.caller.own)
        job = self._home.jobs.get(number)
        if job is None:
            raise Refused("not-running", f"{named.job} has finished", f"see 'iriai show {body.id}'")
        index = _index(job, named.task, str(named.job))
        if not job.has_index(index):
            raise NotFound("no-such-task", f"there is no task {TaskId(*named.job, index)}")
        self._check_origin(asked, job.spec.user, job, index)
        if not asked.caller.operator:
            self._per_user.check(asked.caller.person.name)
        self._durability.check()
        asked.is_changing = True
        by = asked.caller.person.name
        numbered = self._steps.number(job, index, named.rank, by, body.machine)
        await self._durability.stored()
        return StepNumbered(*numbered)

    async def _order(self, asked: RequestContext, body: OrderStep) -> Done:
        step, steps = body.step, self._steps
        spec = self._spec_of(asked, step)
        _check(body)
        user, is_new = asked.caller.person.name, not steps.is_known(step)
        if is_new and not asked.caller.operator:
            self._per_user.check(user)
        origin = self._origin(asked, body, spec)
        asked.is_changing = True
        self._begin(asked, body, spec.user, origin)
        if is_new:
            self._counted[step] = user
            self._per_user.add(user)
        if not steps.is_begun(step) and not await self._wait(step, BEGIN_WAIT_S):
            raise Unreachable(
                "no-answer",
                f"the machine of {step} has not answered for {BEGIN_WAIT_S:.0f} s",
                "it may be restarting; see 'iriai nodes'",
            )
        return Done()

    def _begin(self, asked: RequestContext, body: OrderStep, user: str, origin: str) -> None:
        step = body.step
        order = Step(
            step,
            body.rank,
            body.command,
            body.interaction,
            body.takes_input,
            body.window,
            body.terminal,
            origin,
        )
        self._steps.order(order, body.machine, user, self._engine.now.steady_s)
        if body.takes_input or body.interaction is Interaction.TERMINAL:
            self._heard_s[step] = self._engine.steady_s()
            if asked.origin:  # whose end the other machine tells, if it can
                self._engine.later(AWAY_S, partial(self._client_gone, step, AWAY_S))
            else:
                wait_s = 0.0 if asked.connection.is_local else AWAY_S
                asked.connection.on_close.append(partial(self._client_gone, step, wait_s))

    async def _await(self, asked: RequestContext, body: AwaitStep) -> StepState:
        self._known(asked, body.step)
        end = self._end_of(body.step)
        if end is None and body.wait_s > 0.0:
            await self._wait(body.step, body.wait_s)
            end = self._end_of(body.step)
        return StepState(None if end is None else _outcome(end))

    async def _end(self, asked: RequestContext, body: EndStep) -> Done:
        spec = self._known(asked, body.step)
        asked.is_changing = True
        self._steps.stop(body.step, spec.kill_grace_s)
        return Done()

    async def _leave(self, asked: RequestContext, body: LeaveStep) -> Done:
        step = body.step
        self._spec_of(asked, step)
        asked.is_changing = True
        if self._steps.is_live(step):
            self._abandon(step)
        elif self._steps.is_known(step):
            self._steps.forget(step)
            self._origins.pop(step, None)
            self._engine.after_this_turn(partial(self._relay.forget, step))
        return Done()

    # --- streams ---------------------------------------------------------------------------------

    async def _read(self, asked: RequestContext, body: ReadStep) -> OutputPiece:
        step = body.step
        self._known(asked, step)
        if body.kind not in OUTPUTS:
            raise UsageProblem("no-such-output", f"a job step has no output '{body.kind}'")
        machine, user = self._steps.machine_of(step), asked.caller.person.name
        wait_s = body.wait_s if self._looks.has_room(user) else 0.0
        self._looks.add(user)
        try:
            return await self._relay.read(step, machine, body.kind, body.offset, wait_s)
        finally:
            self._looks.give_back(user)
            self._hear(step)

    async def _write(self, asked: RequestContext, body: WriteStep) -> InputWritten:
        step = body.step
        self._known(asked, step)
        if not self._steps.is_begun(step):
            raise Refused(NOT_STARTED, f"{step} has not started", "send its input later")
        message = Input(step, body.offset, body.content, is_end=body.is_end, window=body.window)
        taken = await self._relay.input(self._steps.machine_of(step), message)
        return InputWritten(taken.offset, taken.is_open)

    # --- within ----------------------------------------------------------------------------------

    def _spec_of(self, asked: RequestContext, step: AttemptId) -> JobSpec:
        """Return the specification of a step's job; raise a `Problem` if it is not the caller's."""
        if step.home != self._home.name or not step.step:
            raise NotFound("no-such-step", f"{step} is not a job step of this home")
        self._queries.require(step.number, asked.caller.own)
        if asked.origin != self._origins.get(step, "") and self._steps.is_known(step):
            raise NotAllowed("not-yours", f"{step} was not asked for on {asked.origin or 'here'}")
        return self._queries.spec(step.number)

    def _known(self, asked: RequestContext, step: AttemptId) -> JobSpec:
        """As `_spec_of`; raise `Refused` before the step is ordered, or ordered again."""
        spec = self._spec_of(asked, step)
        if not self._steps.is_known(step):
            raise Refused(NOT_STARTED, f"{step} has not started", "order it, or order it again")
        self._hear(step)
        return spec

    def _origin(self, asked: RequestContext, body: OrderStep, spec: JobSpec) -> str:
        """Return the machine that nodes are to judge; empty: the home itself vouches for the user.

        Raises `NotAllowed` if that machine does not speak for the user.
        """
        step, origin = body.step, asked.origin
        if not origin:
            return ""
        job = self._home.jobs.get(step.number)
        has_seat = self._check_origin(asked, spec.user, job, step.index)
        if len(self._origins) > ORIGINS_MAX:
            self._origins = {
                each: machine
                for each, machine in self._origins.items()
                if self._steps.is_known(each)
            }
        self._origins[step] = origin
        return "" if has_seat else origin

    def _check_origin(
        self, asked: RequestContext, user: str, job: JobState | None, index: int
    ) -> bool:
        """Return whether the machine that asks has a seat of the task, and so the user's programs.

        Raises `NotAllowed` if it has none, and does not speak for the user here.
        """
        origin = asked.origin
        if not origin or (job is not None and origin in machines_of(job, index)):
            return True
        if words := self._speaks_for(origin, user, self._engine.now.wall_s):
            raise NotAllowed(
                "not-trusted",
                f"{origin} does not speak for {user} here: {words}",
                f"start the step on {self._home.name}, or let an operator trust {origin}",
            )
        return False

    def _end_of(self, step: AttemptId) -> StepEnded | None:
        return self._steps.end_of(step, self._engine.now.steady_s)

    async def _wait(self, step: AttemptId, wait_s: float) -> bool:
        """Wait until a step has begun, or is over; return False if it does not within `wait_s`."""
        pending: Pending[None] = Pending()
        waiting = self._waiting.setdefault(step, [])
        waiting.append(pending)
        has_changed = True

        def late() -> None:
            nonlocal has_changed
            if not pending.is_over:
                has_changed = False
                pending.resolve(None)

        self._engine.later(wait_s, late)
        try:
            await pending
        finally:
            waiting.remove(pending)
            if not waiting:
                self._waiting.pop(step, None)
        return has_changed

    def _changed(self, changed: StepChanged) -> None:
        step = changed.step
        if changed.is_over:
            self._heard_s.pop(step, None)
            user = self._counted.pop(step, None)
            if user is not None:
                self._per_user.give_back(user)
        for pending in self._waiting.get(step, ())[:]:
            pending.resolve(None)

    # --- clients that are gone -------------------------------------------------------------------

    def _hear(self, step: AttemptId) -> None:
        if step in self._heard_s:
            self._heard_s[step] = self._engine.steady_s()

    def _client_gone(self, step: AttemptId, wait_s: float) -> None:
        """End the input of a step whose client does not come back within `wait_s`."""
        heard_s = self._heard_s.get(step)
        if heard_s is None:
            return
        rest_s = heard_s + wait_s - self._engine.steady_s()
        if rest_s > 0.0:
            self._engine.later(rest_s, partial(self._client_gone, step, wait_s))
        else:
            self._abandon(step)

    def _abandon(self, step: AttemptId) -> None:
        if self._heard_s.pop(step, None) is not None:
            message = Input(step, 0, b"", is_abandoned=True)
            self._relay.abandon(self._steps.machine_of(step), message)


def _index(job: JobState, index: int | None, name: str) -> int:
    """Return the task that a client means who names none: the only one that runs."""
    if index is not None:
        return index
    running = [each for each, task in job.tasks.items() if task.has_started]
    if len(running) > 1:
        raise UsageProblem(
            "which-task",
            f"{len(running)} tasks of {name} run",
            f"name one, as in {name}.{running[0]}",
        )
    return running[0] if running else job.spec.array[0][0]


def _check(body: OrderStep) -> None:
    """Raise `UsageProblem` if nothing could be started so."""
    if not body.command:
        raise UsageProblem("no-command", "there is no command")
    if problem := command_problem(body.command):
        raise UsageProblem("too-long", problem.words, problem.hint)
    if body.interaction is Interaction.BATCH:
        raise UsageProblem("no-such-form", "a job step has streams, or a terminal")


def _outcome(end: StepEnded) -> Outcome:
    if end.cause is EndCause.REFUSED:
        raise Refused("not-running", f"{end.attempt} was not started: {end.message}")
    return Outcome(str(end.attempt), end.cause, end.exit_code, end.signal, end.message)
