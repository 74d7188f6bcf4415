"""`iriai logs`: the output of a job's tasks."""

from __future__ import annotations

import os

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import STDERR, STDOUT, print_document, remark, sink_to
from iriai.cli.jobs.options.names import ANY_JOB
from iriai.cli.jobs.watching.follow import JobFollower
from iriai.cli.jobs.watching.follow import follow as follow_output
from iriai.client.client import Client
from iriai.client.tail import FollowedFiles, Sink
from iriai.model.problem import ExitCode, NotFound, Refused, UsageProblem
from iriai.wire.requests import LogFile


def logs(
    options: GlobalOptions,
    job: str = ANY_JOB,
    follow: bool = option(False, "-f", "--follow", help="Go on until the job has finished."),
    rank: int | None = option(
        None, "--rank", metavar="R", help="Only what this rank of a task writes."
    ),
) -> int:
    """Print the output of a job's tasks, as far as it is written.

    Ranks of one machine share a file unless %r is in its name: --rank prints all of it then.
    Output goes to standard output, and errors that have a file of their own to standard error. With
    --json the command prints where the files are instead.
    """
    if options.as_json and follow:
        raise UsageProblem("no-such-form", "--follow has no JSON form", "leave out one of them")
    with options.connect() as client:
        if follow:
            watch = JobFollower(client, job, _Sections().sinks_for, rank=rank)
            while watch.step() is None:
                pass
            return ExitCode.DONE
        files = client.logs(job)
        if rank is not None and files:
            files = _of_rank(job, files, rank)
        if options.as_json:
            print_document({"files": files})
        elif not files:
            remark(f"{job} has not started, so there is no output yet: see iriai why {job}")
        else:
            _print(client, files)
    return ExitCode.DONE


def _print(client: Client, files: tuple[LogFile, ...]) -> None:
    sections = _Sections(is_array=len(files) > 1)
    for file in files:
        followed = FollowedFiles()
        follow_output(client, followed, file, sections.sinks_for(file))
        if file.machine and not file.is_fetched and not os.path.exists(file.output):
            remark(f"the output of {file.task} is on {file.machine}, in {file.output}")
        try:
            if file.finished:
                followed.finish()
            else:
                followed.catch_up()
        except OSError as problem:
            raise Refused(
                "unreadable",
                f"the output of {file.task} cannot be read: {problem.strerror}",
                f"it is in {file.output}",
            ) from None


class _Sections:
    """Prints whose output comes next, if there are several tasks."""

    def __init__(self, *, is_array: bool = False) -> None:
        self._is_array = is_array
        self._task = ""
        self._sinks = sink_to(STDOUT), sink_to(STDERR)

    def sinks_for(self, file: LogFile) -> tuple[Sink, Sink]:
        """Return where the output and errors of this task go."""
        # Followed one by one, it shows only with the second that there are several.
        name = _name(file)
        self._is_array = self._is_array or bool(self._task and self._task != name)
        output, error = self._sinks
        return self._headed(name, output), self._headed(name, error)

    def _headed(self, task: str, sink: Sink) -> Sink:
        def headed(data: bytes) -> None:
            if task != self._task:
                if self._is_array or self._task:
                    sink(f"{chr(10) if self._task else ''}==> {task} <==\n".encode())
                self._task = task
            sink(data)

        return headed


def _of_rank(job: str, files: tuple[LogFile, ...], rank: int) -> tuple[LogFile, ...]:
    """Return the files that a rank writes; raise `NotFound` if there is no such rank."""
    found = tuple(file for file in files if file.has_rank(rank))
    if not found:
        most = max(file.ranks for file in files)
        has = "rank 0 alone" if most == 1 else f"ranks 0 to {most - 1}"
        raise NotFound("no-such-rank", f"{job} has no rank {rank}", f"it has {has}")
    return found


def _name(file: LogFile) -> str:
    """Return who writes a file."""
    if file.writers == file.ranks:
        return file.task
    if file.writers == 1:
        return f"{file.task}, rank {file.rank}"
    return f"{file.task}, ranks {file.rank} to {file.rank + file.writers - 1}"


app = Command(
    logs,
    ("iriai logs ume-42", "all tasks"),
    ("iriai logs -f ume-42.7", "one task, as it is written"),
    ("iriai logs ume-42 --rank 3", "one rank of a job of several"),
    ("less $(iriai logs --json ume-42 | jq -r '.files[0].output')", "the file itself"),
)
