"""`iriai alter`: change the request of waiting jobs."""

from __future__ import annotations

from typing import TypeVar

from msgspec import UNSET, UnsetType

from iriai.cli.framework.command import Command, GlobalOptions, OptionGroup, option
from iriai.cli.framework.standard_streams import remark
from iriai.cli.jobs.changing.bulk_change import WHOLE_JOBS
from iriai.cli.jobs.options.job import (
    AMOUNT_MAX,
    WAIT_FOR_RESOURCES,
    after_texts,
    limit,
    named_resource,
    need,
    parsed,
    priority,
    whole,
)
from iriai.cli.jobs.options.parallel import parallel
from iriai.cli.jobs.options.script import THROTTLE_MAX
from iriai.model.problem import ExitCode, UsageProblem
from iriai.model.resources import CPUS, GPUS, MEMORY
from iriai.model.units import parse_duration, parse_size, printable
from iriai.wire.changes import Alter, AlterResult

NONE = "none"
"""Removes a limit, a throttle, an expression, or all dependencies."""
T = TypeVar("T")


class NewValues(OptionGroup, frozen=True):
    """Options with new values; options not given leave theirs unchanged."""

    name: str | None = option(
        None, "-J", "--name", metavar="NAME", help="Name of the job, for listings."
    )
    cpus: int | None = need(None, "-c", "--cpus", metavar="N", help=CPUS.help)
    memory: str | None = need(None, metavar="SIZE", help=MEMORY.help)
    gpus: int | None = need(None, metavar="N", help=GPUS.help)
    resource: list[str] | None = need(
        None,
        metavar="NAME=N",
        help="Amount of a named resource per task; 0 removes it. Repeatable.",
    )
    exclusive: bool | None = need(
        None, "--exclusive/--no-exclusive", help="Each task needs a whole machine."
    )
    requirements: str | None = need(
        None, metavar="EXPR|none", help="Condition on the machine, as in 'Memory >= 16384'."
    )
    rank: str | None = need(
        None, metavar="EXPR|none", help="Preferred machines: those with the larger value."
    )
    wait_for_resources: bool = WAIT_FOR_RESOURCES
    ranks: str | None = parallel(
        None, "-n", "--ranks", metavar="RANKS|MIN-MAX", help="Processes of each task."
    )
    nodes: str | None = parallel(
        None, "-N", "--nodes", metavar="N|none", help="Machines of each task."
    )
    per_node: str | None = parallel(None, metavar="P|none", help="Ranks on each machine.")
    across_pools: bool | None = parallel(
        None, "--across-pools/--no-across-pools", help="Machines may be of several pools."
    )
    time: str | None = limit(
        None, "-t", "--time", metavar="DURATION|none", help="Time limit (wall time)."
    )
    array_throttle: str | None = limit(
        None, metavar="N|none", help="Number of tasks that may run at once."
    )
    queue: int | None = priority(
        None,
        "-q",
        "--queue",
        metavar="N",
        help="Queue to wait in; what it has waited counts on.",
        autocompletion="complete_queue",
    )
    urgency: float | None = priority(
        None, "-p", "--urgency", metavar="FACTOR", help="Factor of chance and cost: 2 doubles both."
    )
    after: list[str] | None = priority(
        None,
        metavar="COND:ID[,ID]...|none",
        help="Jobs to wait for, instead of the current ones. Repeatable.",
        autocompletion="complete_dependency",
    )

    def request(self, names: list[str]) -> Alter:
        """Return the request that changes `names` so."""
        time, throttle = self.time, self.array_throttle
        request = Alter(
            tuple(names),
            name=_given(self.name),
            cpus=UNSET if self.cpus is None else whole("--cpus", self.cpus, 1),
            memory_bytes=_given(parsed("--memory", self.memory, parse_size)),
            gpus=UNSET if self.gpus is None else whole("--gpus", self.gpus, 0),
            named=UNSET if self.resource is None else tuple(map(named_resource, self.resource)),
            time_limit_s=None if time == NONE else _given(parsed("--time", time, parse_duration)),
            queue=UNSET if self.queue is None else whole("--queue", self.queue, 0),
            urgency=_given(self.urgency),
            after=UNSET if self.after is None else _after(self.after),
            throttle=None if throttle == NONE else _given(_throttle(throttle)),
            exclusive=_given(self.exclusive),
            wait_for_resources=self.wait_for_resources,
            requirements="" if self.requirements == NONE else _given(self.requirements),
            rank="" if self.rank == NONE else _given(self.rank),
            ranks=_given(self.ranks),
            nodes=_number("--nodes", self.nodes),
            per_node=_number("--per-node", self.per_node),
            across_pools=_given(self.across_pools),
        )
        if request == Alter(tuple(names), wait_for_resources=self.wait_for_resources):
            raise UsageProblem(
                "nothing-named",
                "no change is given",
                "name a change, as in iriai alter ume-42 --time 2h",
            )
        return request


def alter(options: GlobalOptions, new: NewValues, names: list[str] = WHOLE_JOBS) -> int:
    """Change what waiting jobs ask for, and print the changes.

    Running tasks keep what they have.
    """
    request = new.request(names)
    with options.connect() as client:
        altered = client.alter(request)
    options.print_result(altered, lambda: _print(altered))
    return ExitCode.REFUSED if altered.problems else ExitCode.DONE


def _print(altered: AlterResult) -> None:
    for job, changes in altered.changes.items():
        for each in changes:
            print(printable(f"{job}: {each.field} {each.was} -> {each.now}"))
        if not changes:
            print(f"{job}: unchanged, it has these values already")
    for name, problem in altered.problems.items():
        remark(f"{name}: {problem}")


def _after(texts: list[str]) -> tuple[str, ...]:
    return after_texts([] if texts == [NONE] else texts)


def _given(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


def _number(option: str, text: str | None) -> int | UnsetType | None:
    if text is None or text == NONE:
        return UNSET if text is None else None
    if not text.isdecimal() or int(text) > AMOUNT_MAX:
        raise UsageProblem(
            "bad-amount", f"{option}: '{text}' is not a number", "write one from 1, or none"
        )
    return int(text)


def _throttle(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= THROTTLE_MAX:
        raise UsageProblem(
            "bad-throttle",
            f"--array-throttle: '{text}' is not a number of tasks",
            "write a number from 1, or none",
        )
    return int(text)


app = Command(
    alter,
    ("iriai alter ume-42 --time 2h --memory 8G", "it needs more"),
    ("iriai alter 'name:sweep*' -p 2", "sooner, at twice the cost"),
    ("iriai alter ume-42 --queue 2", "let others go first"),
    ("iriai alter ume-42 --requirements none", "any machine will do now"),
    ("iriai alter ume-42 -n 16 --nodes none", "16 ranks, on as few machines as hold them"),
    ("iriai alter ume-42 --array-throttle 5", "at most five of its tasks at once"),
    ("iriai alter ume-43 --after ok:ume-42", "start it when ume-42 has completed"),
    ("iriai alter ume-43 --after none", "it waits for no job any more"),
)
