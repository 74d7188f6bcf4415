"""The judge of parallel jobs: a file outside iriai into which every rank writes itself."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from iriai.client import Client
from iriai.wire.requests import Show
from tests.endtoend.installation import Installation

SCRIPT = """
name="$IRIAI_JOB_ID.$IRIAI_TASK_ID $IRIAI_ATTEMPT $IRIAI_RANK $IRIAI_RANKS $$"
echo "$name begin" >> "$1"
sleep "$2"
echo "$name end" >> "$1"
"""


class RankLine(NamedTuple):
    """What one rank wrote, in one append."""

    task: str
    attempt: int
    rank: int
    ranks: int
    pid: int
    is_end: bool


class RankJudge:
    """Hands the ranks their script, and compares what they wrote with what iriai says."""

    def __init__(self, installation: Installation) -> None:
        self.path = installation.directory / "ranks"
        self.path.touch()
        self.path.chmod(0o666)

    def command(self, sleep_s: float) -> tuple[str, ...]:
        """A rank that writes its begin, sleeps, and writes its end."""
        return ("sh", "-c", SCRIPT, "judged", str(self.path), str(sleep_s))

    def lines(self) -> list[RankLine]:
        return [_line(text) for text in self.path.read_text().splitlines()]

    def begun(self) -> list[RankLine]:
        """Return the ranks that have begun so far."""
        return [line for line in self.lines() if not line.is_end]

    def decide(self, client: Client, jobs: list[str]) -> dict[str, int]:
        """Raise unless every task ended well, once and whole; returns what there was to count."""
        return self.decide_all([(client, jobs)])

    def decide_all(self, asked: list[tuple[Client, list[str]]]) -> dict[str, int]:
        """The same of jobs of several homes."""
        lines = self.lines()
        tasks = list(dict.fromkeys(line.task for line in lines))
        details = [client.show(job) for client, jobs in asked for job in jobs]
        for detail in details:
            assert detail.causes == {"completed": detail.row.tasks}, f"{detail.row.id}: {detail}"
        assert len(tasks) == sum(detail.row.tasks for detail in details)
        counted = {"tasks": len(tasks), "attempts": 0, "lost": 0}
        by_task = defaultdict[str, list[RankLine]](list)
        for line in lines:
            by_task[line.task].append(line)
        homes = {job: client for client, jobs in asked for job in jobs}
        for task, its in by_task.items():
            client = homes[task.rpartition(".")[0]]
            causes = {
                row.attempt: row.cause
                for row in client._connection.channel.ask(Show(task)).attempts
            }
            attempts = _check_order(its)
            counted["attempts"] += len(attempts)
            counted["lost"] += _check_attempts(attempts, causes)
        return counted


def _line(text: str) -> RankLine:
    task, attempt, rank, ranks, pid, what = text.split()
    return RankLine(task, int(attempt), int(rank), int(ranks), int(pid), what == "end")


def _check_order(lines: list[RankLine]) -> dict[int, list[RankLine]]:
    """Return the lines of each attempt of a task: none writes after the next one has begun."""
    attempts: dict[int, list[RankLine]] = {}
    for line in lines:
        newest = next(reversed(attempts), 0)
        assert line.attempt >= newest, f"{line} after attempt {newest} had begun"
        attempts.setdefault(line.attempt, []).append(line)
    return attempts


def _check_attempts(attempts: dict[int, list[RankLine]], causes: dict[int, str]) -> int:
    """Check each attempt of a task that ran; returns how many were lost."""
    *before, last = attempts
    for number in before:
        # `refused`: a launcher died as it started a seat of it, and others ran already.
        assert causes[number] in ("lost", "refused"), f"{attempts[number][0]} is {causes[number]}"
    assert causes[last] == "completed", f"{attempts[last][0]} is {causes[last]}"
    lines = attempts[last]
    for is_end in (False, True):
        ranks = sorted(line.rank for line in lines if line.is_end is is_end)
        assert ranks == list(range(lines[0].ranks)), f"{lines[0]}: ranks {ranks}, {is_end=}"
    return len(before)
