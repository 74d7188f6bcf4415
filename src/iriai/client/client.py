"""A typed client of one daemon: requests of the wire protocol as methods."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from iriai.client.connection import (
    Connection,
    JobWait,
    OnLost,
    OnProgress,
    OutputReader,
    candidate_directories,
    pieces,
)
from iriai.client.rpc_channel import ConnectionLost, RpcChannel
from iriai.model.paths import STATE_VARIABLE
from iriai.model.problem import Problem, Unreachable
from iriai.wire.exchange import IDS_MAX, ClientAnswer, ClientRequest, JobRequest
from iriai.wire.requests import (
    AskWhy,
    Down,
    DryRun,
    JobDetail,
    JobDraft,
    JobRow,
    Jobs,
    LogFile,
    Logs,
    Outcome,
    ReadOutput,
    Reasons,
    Show,
    Submit,
    Submitted,
    Welcome,
)

if TYPE_CHECKING:
    from pathlib import Path

    from iriai.client.step import StepFollower
    from iriai.wire.changes import Alter, AlterResult, Changed, FieldChange
    from iriai.wire.machines import NodeRow, PoolRow
    from iriai.wire.reports import ShareTable, StatusReport, UsageTable
    from iriai.wire.steps import NumberStep, OrderStep, StepNumbered

TOKEN_VARIABLE = "IRIAI_TOKEN"  # noqa: S105 - its name, not its value
"""Environment variable with a user's token, as `iriai token --user` prints it."""
RESTART_WAIT_S = 60.0
"""How long a restarting daemon is waited for: as long as `up` waits for one."""
_PAUSE_S = 0.05

_A = TypeVar("_A", bound=ClientAnswer)


def local_directories(state: Path | str | None) -> tuple[str, ...]:
    """Return the state directories in which a daemon is searched; none where a token names one."""
    option = None if state is None else str(state)
    is_named = option or os.environ.get(STATE_VARIABLE)
    if os.environ.get(TOKEN_VARIABLE) and not is_named:
        return ()
    return candidate_directories(option, os.environ, os.geteuid())


class Client:
    """A connection to a daemon; for one thread at a time, and a context manager.

    Every method raises the `Problem` with which the daemon refuses the request, and
    `ConnectionLost` if the connection ends before the answer; `wait` alone reconnects.
    """

    def __init__(self, connection: Connection) -> None:
        """Use `connect` instead."""
        self._connection = connection

    @classmethod
    def connect(cls, state: Path | str | None = None, *, follow: bool = True) -> Client:
        """Connect to the daemon of the state directory `state`.

        Without one: to the daemon of `$IRIAI_STATE`; else, with a token in `$IRIAI_TOKEN`, to the
        machine that the token names, over the network; else to the user's own daemon, else to the
        machine's. The daemon of a back end names its front end, to which the client then connects;
        with `follow` false it stays connected to the back end.

        Raises:
            Unreachable: no process listens, or it is not a daemon of this version.
            NotAllowed: this user may not connect.
            UsageProblem: the path is too long for a socket.
        """
        directories = local_directories(state)
        token = "" if directories else os.environ.get(TOKEN_VARIABLE, "")
        return cls(Connection(directories, follow=follow, token=token))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The daemon carries out requests that it has not answered."""
        self._connection.channel.close()

    @property
    def welcome(self) -> Welcome:
        """The daemon that this client reached, and the user as which it knows the client."""
        return self._connection.channel.welcome

    def ask(self, request: ClientRequest[_A]) -> _A:
        """Return the answer to any request of the wire protocol, see `iriai.wire`."""
        return self._connection.channel.ask(request)

    # --- submission ------------------------------------------------------------------------------

    def submit(
        self,
        draft: JobDraft,
        *,
        takes_input: bool = False,
        window: tuple[int, int] = (0, 0),
        immediate: bool = False,
    ) -> Submitted:
        """Submit a job; it is durable when this returns.

        With `takes_input`, the client of an interactive job sends its input, see `InputSender`;
        `window` is the size of its terminal, rows and columns. With `immediate`, raises `Refused`
        (`not-now`) unless all its tasks can start now.
        """
        body = Submit(draft, takes_input=takes_input, window=window, immediate=immediate)
        channel = self._connection.channel
        return channel.finish(channel.begin(body), Submitted)

    def submit_many(self, drafts: Iterable[JobDraft]) -> list[Submitted | Problem]:
        """Submit many jobs, without waiting for each answer.

        Returns for each, in order, its id or its problem. Problems are returned, not raised, so
        that the ids of the other jobs are not lost.
        """
        return self._connection.channel.ask_many(map(Submit, drafts), Submitted)

    def dry_run(self, draft: JobDraft) -> DryRun:
        """Return what would happen to a job, without submitting it."""
        channel = self._connection.channel
        return channel.finish(channel.begin(Submit(draft, dry_run=True)), DryRun)

    # --- reports ---------------------------------------------------------------------------------

    def jobs(self, request: Jobs | None = None) -> list[JobRow]:
        """Return the jobs that `request` selects; by default the user's unfinished jobs."""
        listed = self.ask(request or Jobs())
        read = msgspec.msgpack.Decoder(JobRow).decode
        rows, estimates = [read(row) for row in listed.rows], listed.estimates
        return [_estimated(row, estimates) if row.id in estimates else row for row in rows]

    def show(self, name: str, *, ranks: bool = False) -> JobDetail:
        """Return all details of the job or task `name`; `ranks`: with each attempt's seats."""
        return self.ask(Show(name, ranks))

    def why(self, name: str) -> Reasons:
        """Return the reasons for which the job or task `name` waits."""
        return self.ask(AskWhy(name))

    def logs(self, name: str, after_index: int = -1) -> tuple[LogFile, ...]:
        """Return the output files of the started tasks of the job or task `name`.

        Only tasks with an index above `after_index` are included.
        """
        files: list[LogFile] = []
        until: int | None = after_index
        rank: int | None = None
        while until is not None:
            page = self.ask(Logs(name, until, rank))
            files += page.files
            until, rank = page.until_index, page.until_rank
        return tuple(files)

    def output(self, file: LogFile, kind: str) -> OutputReader:
        """Return a reader of a task's output, `out` or `err`, where `file.is_kept`."""
        request = ReadOutput(file.task, file.attempt, kind, 0, rank=file.rank)
        return OutputReader(self._connection, request)

    def number_step(self, where: NumberStep) -> StepNumbered:
        """Name a new job step; a daemon that restarts is waited for."""
        from iriai.client.step import numbered

        return numbered(self._connection, where)

    def step(self, order: OrderStep) -> StepFollower:
        """Order a job step, and follow it; see `StepFollower`."""
        from iriai.client.step import StepFollower

        return StepFollower(self._connection, order)

    @property
    def channel(self) -> RpcChannel:
        """The requests and answers of the current connection."""
        return self._connection.channel

    def shares(self) -> ShareTable:
        """Return the share of each account, by rights and as used."""
        from iriai.wire.reports import Shares

        return self.ask(Shares())

    def usage(
        self, since_wall_s: float = 0.0, *, everyone: bool = True, by: str = "account"
    ) -> UsageTable:
        """Return sums over the attempts that ended since a time, by `account` or by `job`."""
        from iriai.wire.reports import AskUsage

        return self.ask(AskUsage(since_wall_s, everyone, by))

    def status(self) -> StatusReport:
        """Return the state of the machine."""
        from iriai.wire.reports import Status

        return self.ask(Status())

    def nodes(self) -> tuple[NodeRow, ...]:
        """Return the machines that run tasks, by name; a back end returns itself."""
        from iriai.wire.machines import AskNodes

        return self.ask(AskNodes()).rows

    def pools(self) -> tuple[PoolRow, ...]:
        """Return the pools of machines that are alike, by name."""
        from iriai.wire.machines import AskPools

        return self.ask(AskPools()).rows

    # --- waiting ---------------------------------------------------------------------------------

    def wait(
        self,
        names: Sequence[str],
        on_progress: OnProgress | None = None,
        on_lost: OnLost | None = None,
    ) -> tuple[Outcome, ...]:
        """Wait until the jobs and tasks `names` have finished; return how each ended.

        Reconnects to a daemon that restarts; see `JobWait`.
        """
        waiting = self.waiting(names, on_progress, on_lost)
        while (outcomes := waiting.poll()) is None:
            pass
        return outcomes

    def waiting(
        self,
        names: Sequence[str],
        on_progress: OnProgress | None = None,
        on_lost: OnLost | None = None,
    ) -> JobWait:
        """Begin the same wait as `wait`, to be polled by the caller."""
        return JobWait(self._connection, tuple(names), on_progress, on_lost)

    # --- changes ---------------------------------------------------------------------------------

    def cancel(self, names: Sequence[str]) -> Changed:
        """Withdraw waiting tasks and end running ones of `names`: ids, ranges, `name:PATTERN`."""
        from iriai.wire.changes import Cancel

        return self._changed(Cancel, names)

    def hold(self, names: Sequence[str]) -> Changed:
        """Keep waiting tasks of `names` from starting."""
        from iriai.wire.changes import Hold

        return self._changed(Hold, names)

    def release(self, names: Sequence[str]) -> Changed:
        """Let held tasks of `names` start."""
        from iriai.wire.changes import Release

        return self._changed(Release, names)

    def suspend(self, names: Sequence[str]) -> Changed:
        """Suspend running tasks of `names`: ids, ranges, `name:PATTERN`."""
        return self._suspend(names, is_wanted=True)

    def unsuspend(self, names: Sequence[str]) -> Changed:
        """Let suspended tasks of `names` go on, once the cpus that they need are free."""
        return self._suspend(names, is_wanted=False)

    def _suspend(self, names: Sequence[str], *, is_wanted: bool) -> Changed:
        from iriai.wire.changes import SuspendTasks

        return self._changed(lambda ids: SuspendTasks(ids, is_wanted), names)

    def alter(self, request: Alter) -> AlterResult:
        """Change what the waiting tasks of jobs ask for."""
        from iriai.wire.changes import AlterResult

        changes: dict[str, tuple[FieldChange, ...]] = {}
        problems: dict[str, str] = {}
        for piece in pieces(request.ids, IDS_MAX):
            altered = self.ask(replace(request, ids=piece))
            changes |= altered.changes
            problems |= altered.problems
        return AlterResult(changes, problems)

    def _changed(
        self, request: Callable[[tuple[str, ...]], JobRequest[Changed]], names: Sequence[str]
    ) -> Changed:
        from iriai.wire.changes import Changed

        tasks: dict[str, int] = {}
        problems: dict[str, str] = {}
        for piece in pieces(tuple(names), IDS_MAX):
            changed = self.ask(request(piece))
            tasks |= changed.tasks
            problems |= changed.problems
        return Changed(tasks, problems)

    # --- the daemon ------------------------------------------------------------------------------

    def publish(self, kind: str, document: bytes) -> None:
        """Give a document that an operator signed to this machine, which forwards it to all others.

        Returns when it is in force on this machine.
        """
        from iriai.wire.joining import Publish

        if self.ask(Publish(kind, document)).restarts:
            self._await_restart()

    def reload_identity(self) -> None:
        """Have the daemon load the files of its cluster; return when it has."""
        from iriai.wire.joining import TakeUpIdentity

        self.ask(TakeUpIdentity())
        self._await_restart()

    def down(self, *, kill: bool = False) -> None:
        """End the daemon and its supervisor; with `kill` also every task and the launcher.

        Returns when the daemon has closed the connection, which it does at its end.
        """
        self.ask(Down(kill))
        self._await_end()

    def _await_end(self) -> None:
        """Wait until the daemon closes the connection."""
        with suppress(ConnectionLost):
            self._connection.channel.await_end()

    def _await_restart(self) -> None:
        """Wait until the daemon, which is about to end, has been started again."""
        self._await_end()
        deadline_s = time.monotonic() + RESTART_WAIT_S
        while True:
            try:
                self._connection.reconnect()
            except Unreachable:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return


def _estimated(row: JobRow, estimates: dict[str, float]) -> JobRow:
    """Return `row` with its estimated start, unless a start is promised."""
    start_wall_s = None if row.start_wall_s is not None else estimates.get(row.id)
    return row if start_wall_s is None else replace(row, start_wall_s=start_wall_s)
