"""Handlers of requests for the output and input of tasks."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import ClientSession, RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.tasks.stream_relay import StreamRelay
from iriai.home.job import JobState
from iriai.jobs.drafts import ARRAY_INDEX_MAX
from iriai.jobs.queries import JobQueries
from iriai.jobs.selection import whole
from iriai.model.ids import AttemptId
from iriai.model.job import (
    OUTPUTS,
    JobSpec,
)
from iriai.model.problem import Refused, UsageProblem
from iriai.model.submission import Interaction
from iriai.policy.service.allowances import Allowance
from iriai.protocol.messages.streams import Input
from iriai.wire.requests import (
    NOT_STARTED,
    InputWritten,
    LogFile,
    LogFiles,
    Logs,
    OutputPiece,
    ReadOutput,
    WriteInput,
)

AWAY_S = 30.0
"""How long the client of a job that takes input may be away after the connection over a network,
or the daemon, was lost. After that the input is at its end, and a terminal hung up."""


LOOK_S = 1.0
"""Between two looks whether a job has started whose client is gone."""
READS_MAX = 500
"""Reads of a user that wait for more output; one more is answered at once."""


class StreamHandlers:
    """Handlers of requests for output and input."""

    def __init__(
        self, engine: Engine, queries: JobQueries, streams: StreamRelay, each_max: int
    ) -> None:
        """`each_max`: how many jobs that take input a user may have."""
        self._engine = engine
        self._home = engine.machine.home
        self._queries = queries
        self._streams = streams
        self.per_user = Allowance("descriptors_per_user", "terminals and inputs open", each_max)
        self.looks = Allowance("reads_per_user", "reads of output that wait", READS_MAX)
        self.users: dict[int, str] = {}
        """Users of jobs that take input."""
        self._read_s: dict[int, float] = {}
        """When each job was read last that takes input, and whose client was gone once."""

    def restore(self, number: int, job: JobState) -> None:
        """Count a job that takes input; its client has to come back."""
        if job.spec.takes_input:
            self._count(number, job.spec.user)
            self._watch(number, AWAY_S)

    def add(self, number: int, user: str, client: ClientSession) -> None:
        """Count a job that takes input, and watch over its client."""
        self._count(number, user)
        client.on_close.append(partial(self._client_gone, number, client.is_local))

    def _count(self, number: int, user: str) -> None:
        self.users[number] = user
        self.per_user.add(user)

    def _client_gone(self, number: int, is_local: bool) -> None:
        job = self._home.jobs.get(number)
        if job is None:
            return
        if job.spec.interaction is Interaction.TERMINAL and not job.tasks:
            self._engine.request(lambda _: self._cancel(number))
        else:
            self._watch(number, 0.0 if is_local else AWAY_S)

    def _watch(self, number: int, wait_s: float) -> None:
        self._read_s[number] = self._engine.steady_s() + wait_s - AWAY_S
        self._look_at(number)

    def finished(self, number: int) -> None:
        """Forget a job that took input."""
        self._read_s.pop(number, None)
        self.per_user.give_back(self.users.pop(number))

    def _look_at(self, number: int) -> None:
        """End the input of a job whose client has been away for long.

        It is said again as long as the job runs: the message may be lost, or come too early.
        """
        read_s, job = self._read_s.get(number), self._home.jobs.get(number)
        if read_s is None or job is None:
            return
        rest_s = read_s + AWAY_S - self._engine.steady_s()
        if rest_s <= 0:
            rest_s = LOOK_S
            for index, task in job.tasks.items():
                if task.has_started:
                    rest_s = AWAY_S
                    attempt = AttemptId(self._home.name, number, index, task.attempt)
                    self._streams.abandon(task.machine, Input(attempt, 0, b"", is_abandoned=True))
        self._engine.later(rest_s, partial(self._look_at, number))

    def _cancel(self, number: int) -> None:
        if number in self._home.jobs:
            self._home.cancel(number, (), "its terminal was closed")

    @handles(Logs)
    async def _logs(self, asked: RequestContext, body: Logs) -> LogFiles:
        selected = whole(body.id, self._home.name)
        number = selected.job.number
        self._queries.require(number, asked.caller.own)
        self._note_reader(number)
        spec = self._queries.spec(number)
        after_index = min(body.after_index, ARRAY_INDEX_MAX)
        files, until = self._queries.log_files(selected, after_index, body.after_rank)
        told = (self._placed(file, attempt, spec) for attempt, file in files.items())
        return LogFiles(tuple(told), *(until or ()))

    def _placed(self, file: LogFile, attempt: AttemptId, spec: JobSpec) -> LogFile:
        """Return `file` with its owner, and whether its content is fetched from its machine."""
        is_kept = spec.interaction is not Interaction.BATCH
        is_far = file.machine not in ("", self._home.name)
        if is_kept and is_far and file.finished:  # else it is brought from its beginning on
            self._streams.follow(attempt, file.machine)
        return replace(
            file,
            machine=file.machine if is_far else "",
            user=spec.user,
            is_kept=is_kept,
            is_fetched=is_kept and is_far,
        )

    @handles(ReadOutput)
    async def _read(self, asked: RequestContext, body: ReadOutput) -> OutputPiece:
        selected = whole(body.task, self._home.name)
        number = selected.job.number
        self._queries.require(number, asked.caller.own)
        spec = self._queries.spec(number)
        is_kept = spec.interaction is not Interaction.BATCH and body.rank < spec.shape.most
        if len(selected.indices) != 1 or body.kind not in OUTPUTS or not is_kept:
            raise UsageProblem(
                "no-such-output",
                f"no output of {body.task} is kept here",
                "ask Logs for the place of a job's output",
            )
        self._note_reader(number)
        [index] = selected.indices
        attempt = AttemptId(*selected.job, index, body.attempt, body.rank)
        machine = self._machine_of(attempt)
        user = asked.caller.person.name
        wait_s = body.wait_s if self.looks.has_room(user) else 0.0
        self.looks.add(user)
        try:
            return await self._streams.read(attempt, machine, body.kind, body.offset, wait_s)
        finally:
            self.looks.give_back(user)
            self._note_reader(number)

    def _machine_of(self, attempt: AttemptId) -> str:
        """Return where an attempt runs; for one that is over, where its output comes from."""
        job = self._home.jobs.get(attempt.number)
        task = job.tasks.get(attempt.index) if job is not None else None
        if task is not None and task.attempt == attempt.attempt:
            return task.machine_with(attempt.rank) or task.machine
        return self._streams.machine_of(attempt)

    def _note_reader(self, number: int) -> None:
        if number in self._read_s:
            self._read_s[number] = self._engine.steady_s()

    @handles(WriteInput)
    async def _write(self, asked: RequestContext, body: WriteInput) -> InputWritten:
        selected = whole(body.id, self._home.name)
        number = selected.job.number
        self._queries.require(number, asked.caller.own)
        job = self._home.jobs.get(number)
        if job is None or not job.spec.takes_input:
            raise Refused("no-input", f"{body.id} takes no input: it has finished, or had none")
        index = selected.indices[0] if selected.indices else next(iter(job.tasks), 0)
        task = job.tasks.get(index)
        if task is None or not task.has_input:
            raise Refused(NOT_STARTED, f"{body.id} has not started", "send its input later")
        attempt = AttemptId(*selected.job, index, task.attempt)
        message = Input(attempt, body.offset, body.content, is_end=body.is_end, window=body.window)
        taken = await self._streams.input(task.machine, message)
        return InputWritten(taken.offset, taken.is_open)
