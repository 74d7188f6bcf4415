"""A typed client of one daemon: each request of the wire protocol as a method."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from iriai.client.connection import ClusterRequests, Connection, JobWait, OnLost, OnProgress, pieces
from iriai.client.transport import ConnectionLost, candidate_directories
from iriai.model.paths import STATE_VARIABLE
from iriai.model.problem import Problem
from iriai.wire.changes import (
    IDS_MAX,
    Alter,
    AlterResult,
    AskStory,
    Cancel,
    Changed,
    FieldChange,
    Hold,
    Release,
    Story,
)
from iriai.wire.exchange import ClientAnswer, ClientRequest
from iriai.wire.machines import (
    AdList,
    AskAds,
    AskMatch,
    AskNodes,
    Drain,
    Forget,
    MatchTable,
    NodeRow,
    NodeTable,
    Resume,
)
from iriai.wire.reports import (
    AskUsage,
    ConfigurationTable,
    Doctor,
    DoctorReport,
    Shares,
    ShareTable,
    ShowConfiguration,
    Status,
    StatusReport,
    UsageTable,
)
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
    OutputPiece,
    ReadOutput,
    Reasons,
    Show,
    Submit,
    Submitted,
    Welcome,
)

TOKEN_VARIABLE = "IRIAI_TOKEN"  # noqa: S105 - its name, not its value
"""Holds a user's token, as `iriai token --user` prints it."""

_A = TypeVar("_A", bound=ClientAnswer)
_row = msgspec.msgpack.Decoder(JobRow).decode


class Client(ClusterRequests):
    """A connection to a daemon; for one thread at a time, and a context manager.

    Every method raises the `Problem` that the daemon has with it, and `ConnectionLost` when the
    daemon goes away before it answers; `wait` alone waits for it to come back.
    """

    def __init__(self, line: Connection) -> None:
        """Use `connect` instead."""
        self._line = line

    @classmethod
    def connect(cls, state: Path | str | None = None, *, follow: bool = True) -> Client:
        """Connect to the daemon of the state directory `state`.

        Without one: of `$IRIAI_STATE`; else, with a token in `$IRIAI_TOKEN`, to the machine that it
        names, over the network; else to the user's own daemon, else to the machine's. A back
        end's names its front end, to which the client goes on, unless `follow` is false: then it
        has to do with that machine alone.

        Raises:
            Unreachable: nobody listens, or what listens is no daemon of this version.
            NotAllowed: this user may not connect.
            UsageProblem: the path is too long for a socket.
        """
        option = None if state is None else str(state)
        directories = candidate_directories(option, os.environ, os.geteuid())
        is_named = option or os.environ.get(STATE_VARIABLE)
        token = "" if is_named else os.environ.get(TOKEN_VARIABLE, "")
        return cls(Connection(directories, follow=follow, token=token))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. What was asked and not answered is carried out all the same."""
        self._line.conversation.close()

    @property
    def welcome(self) -> Welcome:
        """Whom this client reached, and whom the daemon takes it for."""
        return self._line.conversation.welcome

    def ask(self, request: ClientRequest[_A]) -> _A:
        """The answer to any request of the wire protocol, such as one that has no method here."""
        return self._line.ask(request)

    # --- handing in ------------------------------------------------------------------------------

    def submit(self, draft: JobDraft, descriptor: int | None = None) -> Submitted:
        """Hand in a job; it is durable when this returns.

        `descriptor` becomes the standard input of an interactive job, or its terminal. The caller
        keeps its own copy.
        """
        body = Submit(draft, descriptors=0 if descriptor is None else 1)
        conversation = self._line.conversation
        return conversation.finish(conversation.begin(body, descriptor), Submitted)

    def submit_many(self, drafts: Iterable[JobDraft]) -> list[Submitted | Problem]:
        """Hand in many jobs, without waiting between them.

        Returns for each, in order, its id, or the problem with it, which is returned rather than
        raised so that the ids of the others are not lost.
        """
        return self._line.conversation.ask_many(map(Submit, drafts), Submitted)

    def dry_run(self, draft: JobDraft) -> DryRun:
        """What would become of a job, which is not submitted."""
        conversation = self._line.conversation
        return conversation.finish(conversation.begin(Submit(draft, dry_run=True)), DryRun)

    # --- looking ---------------------------------------------------------------------------------

    def jobs(self, request: Jobs | None = None) -> list[JobRow]:
        """The jobs that `request` asks for; without one the user's own that have not finished."""
        listed = self._line.ask(request or Jobs())
        return [_estimated(_row(row), listed.estimates) for row in listed.rows]

    def jobs_raw(self, request: Jobs | None = None) -> tuple[msgspec.Raw, ...]:
        """As `jobs`, each row still encoded: for very many of which few are looked at."""
        return self._line.ask(request or Jobs()).rows

    def show(self, name: str) -> JobDetail:
        """All that is known of the job or task `name`."""
        return self._line.ask(Show(name))

    def why(self, name: str) -> Reasons:
        """What the job or task `name` waits for."""
        return self._line.ask(AskWhy(name))

    def story(self, name: str) -> Story:
        """How the job or task `name` came to be where it is."""
        return self._line.ask(AskStory(name))

    def logs(self, name: str, after_index: int = -1) -> tuple[LogFile, ...]:
        """Where the output of the job or task `name` is, for tasks that were started.

        With `after_index` only of tasks with a larger index.
        """
        files: list[LogFile] = []
        until: int | None = after_index
        while until is not None:
            page = self._line.ask(Logs(name, until))
            files += page.files
            until = page.until_index
        return tuple(files)

    def read_output(self, file: LogFile, kind: str, offset: int) -> OutputPiece:
        """What the home has of a task's output (`out` or `err`) that is brought from elsewhere."""
        return self._line.ask(ReadOutput(file.task, file.attempt, kind, offset))

    def shares(self) -> ShareTable:
        """What each account is entitled to, and gets."""
        return self._line.ask(Shares())

    def usage(
        self, since_wall_s: float = 0.0, *, everyone: bool = True, by: str = "account"
    ) -> UsageTable:
        """Sums over the attempts that ended since a moment, per `account` or per `job`."""
        return self._line.ask(AskUsage(since_wall_s, everyone, by))

    def status(self) -> StatusReport:
        """How the machine is."""
        return self._line.ask(Status())

    def doctor(self) -> DoctorReport:
        """How each limit is kept, and what is missing."""
        return self._line.ask(Doctor())

    def configuration(self) -> ConfigurationTable:
        """The values in force, and where each comes from."""
        return self._line.ask(ShowConfiguration())

    def nodes(self) -> tuple[NodeRow, ...]:
        """The machines that run tasks, by name; of a back end itself."""
        return self.node_table().rows

    def node_table(self) -> NodeTable:
        """The same, with a note where something of them is not known now."""
        return self._line.ask(AskNodes())

    def ad_list(self, machine: str = "") -> AdList:
        """What machines say of themselves, by name, with a note where some are missing.

        Of one machine, or (empty) of all.
        """
        return self._line.ask(AskAds(machine))

    def match(self, requirements: str) -> MatchTable:
        """Which machines a job with these requirements could run on now."""
        return self._line.ask(AskMatch(requirements))

    # --- waiting ---------------------------------------------------------------------------------

    def wait(
        self,
        names: Sequence[str],
        on_progress: OnProgress | None = None,
        on_lost: OnLost | None = None,
    ) -> tuple[Outcome, ...]:
        """Wait until the jobs and tasks `names` have finished; returns how each did.

        A daemon that goes away is waited for; see `JobWait`.
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
        """As `wait`, to be polled while other things are done."""
        return JobWait(self._line, tuple(names), on_progress, on_lost)

    # --- changing --------------------------------------------------------------------------------

    def cancel(self, names: Sequence[str]) -> Changed:
        """Withdraw what waits and end what runs of `names`: ids, ranges, `name:PATTERN`."""
        return self._changed(Cancel, names)

    def hold(self, names: Sequence[str]) -> Changed:
        """Keep what waits of `names` from starting."""
        return self._changed(Hold, names)

    def release(self, names: Sequence[str]) -> Changed:
        """Let what was held of `names` start."""
        return self._changed(Release, names)

    def drain(self, node: str, reason: str) -> None:
        """Have a machine (empty: this one) start nothing more; for operators."""
        self._line.ask(Drain(node, reason))

    def resume(self, node: str) -> None:
        """Have a drained machine (empty: this one) start tasks again; for operators."""
        self._line.ask(Resume(node))

    def forget_node(self, node: str) -> None:
        """Have a front end list a machine that is gone for good no more; for operators."""
        self._line.ask(Forget(node))

    def alter(self, request: Alter) -> AlterResult:
        """Change what the waiting tasks of jobs ask for."""
        changes: dict[str, tuple[FieldChange, ...]] = {}
        problems: dict[str, str] = {}
        for piece in pieces(request.ids, IDS_MAX):
            altered = self._line.ask(replace(request, ids=piece))
            changes |= altered.changes
            problems |= altered.problems
        return AlterResult(changes, problems)

    def _changed(self, kind: type[Cancel | Hold | Release], names: Sequence[str]) -> Changed:
        tasks: dict[str, int] = {}
        problems: dict[str, str] = {}
        for piece in pieces(tuple(names), IDS_MAX):
            changed = self._line.ask(kind(piece))
            tasks |= changed.tasks
            problems |= changed.problems
        return Changed(tasks, problems)

    def down(self, *, kill: bool = False) -> None:
        """End the daemon and its supervisor; with `kill` also every task and the launcher.

        Returns when the daemon has closed the connection, which it does at its end.
        """
        self._line.ask(Down(kill))
        try:
            self._line.conversation.await_end()
        except ConnectionLost:
            return


def _estimated(row: JobRow, estimates: dict[str, float]) -> JobRow:
    """`row` with the start that is guessed for it, where nothing is promised."""
    start_wall_s = None if row.start_wall_s is not None else estimates.get(row.id)
    return row if start_wall_s is None else replace(row, start_wall_s=start_wall_s)
