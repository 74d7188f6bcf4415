"""The judge of the crash loops: a file outside iriai into which every attempt writes itself."""

from __future__ import annotations

from typing import NamedTuple

from iriai.client import Client
from iriai.wire.requests import AttemptRow, JobDetail, Show
from tests.endtoend.installation import Installation

SCRIPT = """
echo "$IRIAI_JOB_ID.$IRIAI_TASK_ID $IRIAI_ATTEMPT $$ begin" >> "$1"
sleep "$2"
echo "$IRIAI_JOB_ID.$IRIAI_TASK_ID $IRIAI_ATTEMPT $$ end" >> "$1"
"""


class Line(NamedTuple):
    """What one attempt wrote, in one append."""

    task: str
    attempt: int
    pid: int
    is_end: bool


class Judge:
    """Hands the tasks their script, and compares what they wrote with what iriai says."""

    def __init__(self, installation: Installation) -> None:
        self.path = installation.directory / "judge"
        self.path.touch()
        self.path.chmod(0o666)
        self._installation = installation

    def command(self, sleep_s: float) -> tuple[str, ...]:
        """A task that writes its begin, sleeps, and writes its end."""
        return ("sh", "-c", SCRIPT, "judged", str(self.path), str(sleep_s))

    def lines(self) -> list[Line]:
        return [_line(text) for text in self.path.read_text().splitlines()]

    def begun(self) -> int:
        """How many attempts have begun so far."""
        return self.path.read_bytes().count(b" begin\n")

    def decide(self, client: Client, jobs: list[str]) -> dict[str, int]:
        """Raise unless every task of `jobs` ended well, once; returns what there was to count."""
        lines = self.lines()
        details = [client.show(job) for job in jobs]
        _check_all_completed(details)
        tasks = {line.task for line in lines}
        assert len(tasks) == sum(detail.row.tasks for detail in details)
        histories = _histories(client, sorted(tasks))
        _check_lines(lines, histories)
        lost = sum(
            row.cause == "lost" for history in histories.values() for row in history.values()
        )
        return {"tasks": len(tasks), "began": self.begun(), "lost": lost}


def _line(text: str) -> Line:
    task, attempt, pid, what = text.split()
    return Line(task, int(attempt), int(pid), what == "end")


def _check_all_completed(details: list[JobDetail]) -> None:
    for detail in details:
        assert detail.causes == {"completed": detail.row.tasks}, detail.row.id


def _histories(client: Client, tasks: list[str]) -> dict[str, dict[int, AttemptRow]]:
    """Each task's attempts by number, as iriai's history has them."""
    answers = client._connection.channel.ask_many(map(Show, tasks), JobDetail)
    return {
        task: {row.attempt: row for row in answer.attempts}
        for task, answer in zip(tasks, answers, strict=True)
        if isinstance(answer, JobDetail)
    }


def _check_lines(lines: list[Line], histories: dict[str, dict[int, AttemptRow]]) -> None:
    latest: dict[str, Line] = {}
    """Of each task the last line of its newest attempt so far."""
    for line in lines:
        before = latest.get(line.task)
        history = histories[line.task]
        if line.is_end:
            # Else a process outlived its launcher, or wrote twice.
            assert before is not None, f"{line} without a begin"
            assert before == line._replace(is_end=False), f"{line} after {before}"
        elif before is not None:
            assert before.attempt < line.attempt, f"{line} after {before}"
            assert history[before.attempt].cause == "lost", f"{line} although {before} was not lost"
        latest[line.task] = line
    for line in latest.values():
        row = histories[line.task][line.attempt]
        assert line.is_end, f"{line} and no end, but {row.cause}"
        assert row.cause == "completed", f"{line} is {row.cause}"
        assert max(histories[line.task]) == line.attempt
