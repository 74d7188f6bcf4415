"""What a job waits for before it may start: how other jobs, or tasks of them, end."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from iriai.model.bounds import Count, Name
from iriai.model.ids import JobId, TaskId, parse_id
from iriai.model.problem import UsageProblem
from iriai.model.state import EndCause

DEPENDENCIES_MAX = 1000
"""Of one job: each is told when its turn comes, and `show` lists them. More is what an array is
for: one dependency on it covers all of its tasks."""
FORM = "write ok:ume-42, any:ume-42.7 or fail:ume-42,ume-43"


class Condition(StrEnum):
    """How the other one must end."""

    OK = "ok"
    """Every task of it completed."""
    ANY = "any"
    """It ended, however."""
    FAIL = "fail"
    """It ended otherwise than completed."""

    def holds(self, cause: EndCause) -> bool:
        """Whether an end with this (worst) cause is what was waited for."""
        if self is Condition.ANY:
            return True
        return (cause is EndCause.COMPLETED) is (self is Condition.OK)


_NEEDED = {
    Condition.OK: "to complete",
    Condition.ANY: "to end",
    Condition.FAIL: "to end otherwise than completed",
}
_ENDED = {
    EndCause.COMPLETED: "completed",
    EndCause.FAILED: "failed",
    EndCause.CANCELLED: "was cancelled",
    EndCause.LOST: "was lost",
}


class Dependency(NamedTuple):
    """A job, or a task of it, and how it must end."""

    condition: Condition
    home: Name
    number: Count
    task: Count | None = None
    """Index of a task; None: the whole job."""

    @property
    def on(self) -> JobId | TaskId:
        """The job or task that is waited for."""
        if self.task is None:
            return JobId(self.home, self.number)
        return TaskId(self.home, self.number, self.task)

    @property
    def needed(self) -> str:
        """What must happen, in words."""
        return f"{self.on} {_NEEDED[self.condition]}"

    def failed_text(self, cause: EndCause) -> str:
        """That it ended with `cause`, and so the dependency can never hold."""
        ended = _ENDED.get(cause, f"ended at its {cause.replace('-', ' ')}")
        return f"dependency {self.on} {ended}"

    def __str__(self) -> str:
        return f"{self.condition}:{self.on}"


def parse_dependencies(text: str) -> tuple[Dependency, ...]:
    """The dependencies that `ok:ID[,ID...]` names.

    Raises:
        UsageProblem: it has no known condition, or what follows is not a list of ids.
    """
    word, colon, ids = text.partition(":")
    if not colon or word not in tuple(Condition) or not ids:
        raise UsageProblem("bad-dependency", f"'{text}' is not a dependency", FORM)
    condition = Condition(word)
    found = []
    for each in ids.split(","):
        try:
            parsed = parse_id(each.strip())
        except UsageProblem as problem:
            raise UsageProblem(
                "bad-dependency", f"'{text}' is not a dependency: {problem.message}", FORM
            ) from None
        task = parsed.index if isinstance(parsed, TaskId) else None
        found.append(Dependency(condition, parsed.home, parsed.number, task))
    return tuple(found)


def joined_dependencies(texts: tuple[str, ...] | list[str]) -> tuple[Dependency, ...]:
    """All that several texts name, each once, in order; raises `UsageProblem`."""
    found = dict.fromkeys(each for text in texts for each in parse_dependencies(text))
    if len(found) > DEPENDENCIES_MAX:
        raise UsageProblem(
            "too-many-dependencies",
            f"{len(found)} dependencies are more than {DEPENDENCIES_MAX}",
            "wait for one array, or for a job that waits for some of them",
        )
    return tuple(found)
