"""Handlers of requests for the output of tasks: its place, or the part that is here."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.daemon.loop.engine import Engine
from iriai.daemon.requests.jobs.access import JobAccess
from iriai.daemon.requests.jobs.history import JobHistory
from iriai.daemon.requests.jobs.selection import whole
from iriai.daemon.requests.jobs.submission import ARRAY_INDEX_MAX
from iriai.daemon.requests.jobs.views import log_file
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.output_fetcher import CopyKey, OutputFetcher
from iriai.model.ids import AttemptId
from iriai.model.job import Interaction, JobSpec
from iriai.model.problem import UsageProblem
from iriai.model.state import TaskState
from iriai.protocol.messages.output import KINDS
from iriai.wire.requests import LogFile, LogFiles, Logs, OutputPiece, ReadOutput


class OutputHandlers:
    """Handlers of requests for output."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        past: JobHistory,
        owners: JobAccess,
        copies: OutputFetcher | None,
    ) -> None:
        self._copies = copies
        self._settings = settings
        self._home = engine.machine.home
        self._history = past
        self._owners = owners

    @handles(Logs)
    async def _logs(self, asked: RequestContext, body: Logs) -> LogFiles:
        selected = whole(body.id, self._settings.home)
        number = selected.job.number
        self._owners.require(asked, number)
        job = self._home.jobs.get(number)
        spool = self._settings.paths.spool
        spec = job.spec if job else self._history.spec(number)
        files, until = self._history.log_files(
            selected, spec, min(body.after_index, ARRAY_INDEX_MAX)
        )
        for index, task in job.tasks.items() if job else ():
            if task.state is TaskState.QUEUED or index <= body.after_index:
                continue
            is_meant = not selected.indices or index in selected.indices
            if is_meant and (until is None or index <= until):
                attempt = AttemptId(self._settings.home, number, index, task.attempt)
                files[index] = log_file(spec, attempt, spool, task.machine, finished=False)
        told = tuple(
            self._placed(files[index], AttemptId(*selected.job, index, files[index].attempt), spec)
            for index in sorted(files)
        )
        return LogFiles(told, until)

    def _placed(self, file: LogFile, attempt: AttemptId, spec: JobSpec) -> LogFile:
        """Return `file` with its owner, and whether its content is fetched from its machine."""
        is_followed = spec.interaction is Interaction.STREAM
        file = replace(file, user=spec.user, is_kept=is_followed)
        copies = self._copies
        if copies is None or not copies.is_far(file.machine):
            return replace(file, machine="")
        if not is_followed:
            return file
        if file.finished:  # else what it prints is brought from its beginning on
            copies.begin(attempt, file.machine)
        return replace(file, is_fetched=True)

    @handles(ReadOutput)
    async def _read(self, asked: RequestContext, body: ReadOutput) -> OutputPiece:
        selected = whole(body.task, self._settings.home)
        self._owners.require(asked, selected.job.number)
        if len(selected.indices) != 1 or body.kind not in KINDS or self._copies is None:
            raise UsageProblem(
                "no-such-output",
                f"no output of {body.task} is brought here",
                "ask Logs for the place of a job's output",
            )
        [index] = selected.indices
        attempt = AttemptId(*selected.job, index, body.attempt)
        return self._copies.piece(CopyKey(attempt, body.kind), body.offset)
