"""`iriai reserve`: machines for a time that lies ahead."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from iriai.cli.framework.command import Command, GlobalOptions, OptionGroup, option, options_under
from iriai.cli.framework.standard_streams import remark
from iriai.cli.framework.table import amounts_text, count_text, names_text, print_pairs
from iriai.cli.jobs.options.job import named_resource, parsed
from iriai.client.wall_time import iso_text, parse_wall_time, zone_name
from iriai.model.problem import UsageProblem
from iriai.model.reservation_news import NewsWanted
from iriai.model.submission import check_notify
from iriai.model.units import format_duration, parse_duration, parse_size, printable
from iriai.wire.reservations import ReservationPlan, Reserve, Reserved, ReservedSeries

when = options_under("When")
need = options_under("What each node gives; without any of these the whole machine")
whom = options_under("For whom")
told = options_under("What you are told")
"""As `option`, each for one heading of the help page."""


class TimeOptions(OptionGroup, frozen=True):
    """From when to when."""

    start: str | None = when(
        None,
        "-s",
        "--start",
        metavar="TIME",
        help="Start: now, 9:00 (the next), 'tomorrow 9:00', 'monday 9:00', +2h, or ISO 8601 as "
        "2026-12-01T09:00, with +01:00 or ' Europe/Berlin' for another zone than yours.",
    )
    end: str | None = when(
        None,
        "-e",
        "--end",
        metavar="TIME",
        help="End, in the same forms; 17:00, 'friday 17:00' and +2h are the next after the start.",
    )
    duration: str | None = when(
        None, "-d", "--duration", metavar="DURATION", help="Its length instead of an end, as 2h."
    )
    earliest: bool = when(
        False,
        "--earliest",
        help="Start at the first time from --start on at which the nodes can be had for that "
        "long. \\[default of --start: now]",
    )

    every: str = when(
        "",
        metavar="RULE",
        help="Repeat it: daily, weekdays, weekly, monthly, yearly, or a rule of RFC 5545 as "
        "'FREQ=WEEKLY;BYDAY=MO,TH;COUNT=10', at the start's time of day in its zone.",
    )

    def zone(self) -> str:
        """Return the zone of the rule; empty without one; raise if it has no name."""
        if not self.every:
            return ""
        name = zone_name(self.start)
        if not name:
            raise UsageProblem(
                "bad-zone",
                "the zone of this machine has no name that is known",
                "name one, as -s 'monday 9:00 Europe/Berlin'",
            )
        return name

    def times(self, now_wall_s: float) -> tuple[float, float]:
        """Return start and end; raise `UsageProblem` if they cannot be."""
        if self.start is None and not self.earliest:
            raise UsageProblem(
                "no-start",
                "there is no start",
                "give -s TIME, as -s 'tomorrow 9:00', or --earliest",
            )
        start_s = now_wall_s
        if self.start is not None:
            start_s = wall_time("--start", self.start, now_wall_s, now_wall_s)
        end_s = self._end(start_s, now_wall_s)
        if end_s <= start_s:
            raise UsageProblem(
                "bad-time",
                f"--end: {iso_text(end_s)} is not after the start, {iso_text(start_s)}",
                "give a later end, or -d DURATION",
            )
        if end_s <= now_wall_s:
            raise UsageProblem(
                "bad-time",
                f"{iso_text(start_s)} to {iso_text(end_s)} is over",
                "give a time that lies ahead",
            )
        return start_s, end_s

    def _end(self, start_s: float, now_wall_s: float) -> float:
        if (self.end is None) == (self.duration is None):
            is_none = self.end is None
            raise UsageProblem(
                "no-end" if is_none else "two-ends",
                "there is no end" if is_none else "--end and --duration are two ends",
                "give -e TIME or -d DURATION",
            )
        if self.end is None:
            return start_s + (parsed("--duration", self.duration, parse_duration) or 0.0)
        return wall_time("--end", self.end, now_wall_s, start_s)


def wall_time(option: str, text: str, now_wall_s: float, after_wall_s: float) -> float:
    """Return the time that an option gives, as the wall clock has it; raise `UsageProblem`."""
    read = partial(parse_wall_time, now_wall_s=now_wall_s, after_wall_s=after_wall_s)
    return parsed(option, text, read) or 0.0


class NodeOptions(OptionGroup, frozen=True):
    """What each node gives."""

    cpus: int | None = need(
        None, "-c", "--cpus", metavar="N", help="CPUs of each node, for all that runs in it."
    )
    memory: str | None = need(None, metavar="SIZE", help="Memory of each node, as 16G.")
    gpus: int | None = need(None, metavar="N", help="GPUs of each node.")
    resource: list[str] | None = need(
        None, metavar="NAME=N", help="Amount of a named resource, as licence=1. Repeatable."
    )


class NewsOptions(OptionGroup, frozen=True):
    """Of what the user is told, and how."""

    notify: str = told(
        "",
        metavar="COMMAND|mailto:ADDRESS",
        help="Command to run as you in /, or address to write to, when it is confirmed, lacks "
        "nodes, starts, or is over without a task; or an occurrence could not be had.",
    )
    notify_on: NewsWanted = told(
        NewsWanted.ALL, help="News that are told: all, or only those of what went wrong."
    )


def reserve(
    options: GlobalOptions,
    times: TimeOptions,
    each: NodeOptions,
    news: NewsOptions,
    nodes: int = option(..., "-n", "--nodes", metavar="N", help="How many nodes."),
    requirements: str = option(
        "",
        metavar="EXPR",
        help="Condition on the nodes, as 'Arch == \"X86_64\" && Mips > 9000'; see 'iriai match'.",
    ),
    use_by: str = whom(
        "",
        "--for",
        metavar="USER,...|GROUP",
        help="Who may submit into it beside you: users, or a group. \\[default: nobody]",
    ),
    group: str | None = whom(
        None, metavar="GROUP", help="Group whose share it uses. \\[default: your primary group]"
    ),
    account: str | None = whom(
        None,
        metavar="[GROUP/]USER",
        help="User to charge instead of you, if the machine permits it.",
    ),
    dry_run: bool = option(
        False,
        "--dry-run",
        help="Show what would be asked for, and whether it could be had.",
    ),
) -> None:
    """Reserve nodes for a time that lies ahead, and print the reservation's id.

    Once the id is printed all nodes have it, durably. If they cannot be had, nothing is reserved;
    the exit code is 3, with the reasons and the earliest start that would do, as far as known.

    Submit into it with 'iriai submit --reservation ID'. While it is open, nobody else gets what it
    does not use: give back what you do not need with 'iriai reservation cancel ID'.

    A local time that a change of clocks leaves out or repeats is refused; both readings are named.

    With --every the id is that of a series, as ume-r7. Its occurrences are reservations of their
    own, as ume-r7.3: each is made when it lies within the horizon. One that cannot be had is
    listed with the reasons, and the series goes on until it is cancelled, or has no more.
    """
    start_s, end_s = times.times(time.time())
    request = Reserve(
        start_s,
        end_s,
        nodes,
        each.cpus,
        parsed("--memory", each.memory, parse_size),
        each.gpus,
        tuple(map(named_resource, each.resource or ())),
        requirements,
        tuple(filter(None, (name.strip() for name in use_by.split(",")))),
        times.earliest,
        group,
        account,
        dry_run,
        times.every,
        times.zone(),
        parsed("--notify", news.notify, check_notify) or "",
        news.notify_on,
    )
    _print(options, options.ask(request))


def _print(options: GlobalOptions, answer: Reserved | ReservedSeries | ReservationPlan) -> None:
    if isinstance(answer, Reserved):
        options.print_result(answer, answer.id)
        if not options.as_json:
            remark(reserved_text(answer))
    elif isinstance(answer, ReservedSeries):
        options.print_result(answer, answer.id)
        if not options.as_json:
            remark(series_text(answer))
    else:
        options.print_result(answer, lambda: print_pairs(plan_pairs(answer)))


def reserved_text(answer: Reserved) -> str:
    """Return when and where it is, in a line."""
    times = f"{iso_text(answer.start_wall_s)} to {iso_text(answer.end_wall_s)}"
    nodes = count_text(len(answer.nodes), "node")
    return f"{times} on {nodes}: {printable(names_text(answer.nodes))}"


def series_text(answer: ReservedSeries) -> str:
    """Return how a series is repeated, and what came of its first occurrence, in lines."""
    times = f"{iso_text(answer.start_wall_s)} to {iso_text(answer.end_wall_s)}"
    rule = f"{printable(answer.rule)} in {printable(answer.zone)}, first {times}"
    if not answer.first:
        return f"{rule}; occurrences are made when the horizon reaches them"
    if answer.nodes:
        nodes = count_text(len(answer.nodes), "node")
        return f"{rule}; {answer.first} is on {nodes}: {printable(names_text(answer.nodes))}"
    why = printable("; ".join(f"needs {each.needed}; {each.had}" for each in answer.reasons))
    return f"{rule}; {answer.first} could not be had: {why}; the series goes on"


def plan_pairs(plan: ReservationPlan) -> Sequence[tuple[str, str]]:
    """Return what a reservation would be, and whether it could be had, by what it is called."""
    gives = "the whole machine" if plan.resources is None else amounts_text(plan.resources)
    return [
        ("start", iso_text(plan.start_wall_s)),
        ("end", iso_text(plan.end_wall_s)),
        ("for", format_duration(plan.end_wall_s - plan.start_wall_s)),
        ("number of nodes", str(plan.node_count)),
        ("nodes", names_text(plan.nodes)),
        ("each gives", gives),
        ("repeated", f"{plan.rule} in {plan.zone}" if plan.rule else ""),
        ("then", ", ".join(map(iso_text, plan.following))),
        ("account", plan.account),
        ("also used by", for_text(plan.users, plan.group)),
        ("cannot be had", plan.note or _reasons_text(plan)),
        (
            "earliest start",
            "" if plan.earliest_wall_s is None else iso_text(plan.earliest_wall_s),
        ),
    ]


def _reasons_text(plan: ReservationPlan) -> str:
    if not plan.reasons:
        return ""
    from iriai.cli.framework.reasons import reasons_text

    return reasons_text(plan.reasons)


def for_text(users: Sequence[str], group: str) -> str:
    """Return who may use a reservation beside its user."""
    return ", ".join([*users, *([f"the group {group}"] if group else [])])


app = Command(
    reserve,
    ("iriai reserve -s 'tomorrow 9:00' -e 17:00 -n 4", "four whole machines for a day"),
    ("iriai reserve -s now -d 2h -n 1 --cpus 8 --memory 16G", "a part of one, at once"),
    ("iriai reserve --earliest -d 4h -n 16", "as soon as sixteen can be had for four hours"),
    ("iriai reserve -s 'monday 9:00' -d 3h -n 8 --for lecture", "for a group, for a lecture"),
    (
        "iriai reserve --every weekly -s 'monday 9:00 Europe/Berlin' -d 2h -n 3",
        "each Monday at nine there, whatever its clocks do",
    ),
    ("iriai submit --reservation $(iriai reserve -s +10m -d 1h -n 2) job.sh", "and submit into it"),
)
