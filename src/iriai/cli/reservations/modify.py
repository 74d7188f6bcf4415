"""`iriai reservation modify`: change a reservation that stands."""

from __future__ import annotations

import time

from iriai.cli.framework.command import GlobalOptions, OptionGroup, argument, option
from iriai.cli.framework.standard_streams import remark
from iriai.cli.framework.table import print_pairs
from iriai.cli.jobs.options.job import named_resource, parsed
from iriai.cli.reservations.reserve import (
    NodeOptions,
    plan_pairs,
    reserved_text,
    wall_time,
    when,
    whom,
)
from iriai.model.problem import UsageProblem
from iriai.model.units import parse_duration, parse_size, printable
from iriai.wire.reservations import AskReservations, ModifyReservation, ReservationRow, Reserved

ANY_RESERVATION = argument(
    ..., metavar="ID", help="A reservation.", autocompletion="complete_any_reservation"
)


class NewTimeOptions(OptionGroup, frozen=True):
    """From when to when it is to be; what is not given stays."""

    start: str | None = when(
        None,
        "-s",
        "--start",
        metavar="TIME",
        help="Another start, in the forms of 'iriai reserve'; alone it moves the reservation, "
        "which stays as long as it is. Not of one that is open.",
    )
    end: str | None = when(
        None,
        "-e",
        "--end",
        metavar="TIME",
        help="Another end; 17:00, 'friday 17:00' and +2h are the next after the start.",
    )
    duration: str | None = when(
        None, "-d", "--duration", metavar="DURATION", help="Another length, from its start, as 2h."
    )

    def times(self, options: GlobalOptions, reservation: str) -> tuple[float | None, float | None]:
        """Return start and end, None for what is not to change; raise `UsageProblem`."""
        now_wall_s = time.time()
        start_s = None
        if self.start is not None:
            start_s = wall_time("--start", self.start, now_wall_s, now_wall_s)
        if self.end is None and self.duration is None:
            return start_s, None
        if self.end is not None and self.duration is not None:
            raise UsageProblem(
                "two-ends", "--end and --duration are two ends", "give -e TIME or -d DURATION"
            )
        from_s = start_s
        if from_s is None:
            row: ReservationRow = options.ask(AskReservations(id=reservation)).rows[0]
            from_s = row.start_wall_s
        if self.end is not None:
            return start_s, wall_time("--end", self.end, now_wall_s, from_s)
        return start_s, from_s + (parsed("--duration", self.duration, parse_duration) or 0.0)


def modify(
    options: GlobalOptions,
    times: NewTimeOptions,
    each: NodeOptions,
    reservation: str = ANY_RESERVATION,
    nodes: int | None = option(None, "-n", "--nodes", metavar="N", help="How many nodes."),
    whole: bool = option(False, "--whole", help="Each node gives the whole machine."),
    requirements: str | None = option(
        None, metavar="EXPR", help="Another condition on the nodes; '' for none."
    ),
    use_by: str | None = whom(
        None,
        "--for",
        metavar="USER,...|GROUP",
        help="Who may submit into it beside its user, in place of those before; '' for nobody.",
    ),
    dry_run: bool = option(
        False,
        "--dry-run",
        help="Show what it would be, and whether that could be had.",
    ),
) -> None:
    """Change a reservation that is confirmed or open; what is not given stays.

    Its nodes keep it as it is until all have the change: what cannot be had changes nothing, and
    the exit code is 3. It keeps the nodes that it has where they will do.

    Tasks that run in it stay. If it is made shorter they get SIGTERM and their grace in time for
    the new end; it cannot give less than they use. For its user and operators.
    """
    start_s, end_s = times.times(options, reservation)
    names = None if use_by is None else [name.strip() for name in use_by.split(",")]
    request = ModifyReservation(
        reservation,
        start_s,
        end_s,
        nodes,
        whole,
        each.cpus,
        parsed("--memory", each.memory, parse_size),
        each.gpus,
        tuple(map(named_resource, each.resource or ())),
        requirements,
        None if names is None else tuple(filter(None, names)),
        dry_run,
    )
    answer = options.ask(request)
    if isinstance(answer, Reserved):
        options.print_result(answer, f"modified: {printable(answer.id)}")
        if not options.as_json:
            remark(reserved_text(answer))
    else:
        options.print_result(answer, lambda: print_pairs(plan_pairs(answer)))


EXAMPLES = (
    ("iriai reservation modify ume-r7 -e 18:00", "an hour longer, or shorter"),
    ("iriai reservation modify ume-r7 -s 'tomorrow 10:00'", "later, and as long as before"),
    ("iriai reservation modify ume-r7 -n 6 --dry-run", "could it have two nodes more?"),
    ("iriai reservation modify ume-r7 --for ann,bob", "for others as well"),
)
