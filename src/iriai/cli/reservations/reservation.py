"""`iriai reservation`: look at one reservation, change it, or give it back."""

from __future__ import annotations

from iriai.cli.framework.command import CommandGroup, GlobalOptions
from iriai.cli.framework.reasons import reasons_text
from iriai.cli.framework.table import amounts_text, names_text, print_pairs, span_text
from iriai.cli.reservations.modify import ANY_RESERVATION, EXAMPLES, modify
from iriai.cli.reservations.reserve import for_text
from iriai.client.wall_time import iso_text
from iriai.model.units import printable
from iriai.wire.exchange import Done
from iriai.wire.reservations import AskReservations, EndReservation, ReservationRow


def show(options: GlobalOptions, reservation: str = ANY_RESERVATION) -> None:
    """Show one reservation: its id, start, end, number of nodes and nodes; and what else is known.

    Of a series: the times of its first occurrence, its rule, and when the next ones begin.

    Account, users and what each node gives are shown to its users and to operators.
    """
    row = options.ask(AskReservations(id=reservation)).rows[0]
    options.print_result(row, lambda: print_pairs(_pairs(row)))


def cancel(options: GlobalOptions, reservation: str = ANY_RESERVATION) -> None:
    """Give a reservation back, before its start or while it is open.

    Tasks that run in it go on as ordinary ones where they fit. For its user and operators.

    The id of a series, as ume-r7, ends the series and its occurrences; that of an occurrence, as
    ume-r7.3, ends that one.
    """
    done = options.ask(EndReservation(reservation))
    options.print_result(_document(done, reservation), f"cancelled: {printable(reservation)}")


def end(options: GlobalOptions, reservation: str = ANY_RESERVATION) -> None:
    """Give the rest of an open reservation back; refused for one that is not open.

    Tasks that run in it go on as ordinary ones where they fit. For its user and operators.
    """
    done = options.ask(EndReservation(reservation, is_open_only=True))
    options.print_result(_document(done, reservation), f"ended: {printable(reservation)}")


def _document(_: Done, reservation: str) -> dict[str, str]:
    return {"id": reservation}


def _pairs(row: ReservationRow) -> list[tuple[str, str]]:
    pairs = [
        ("reservation", row.id),
        ("start", iso_text(row.start_wall_s)),
        ("end", iso_text(row.end_wall_s)),
        ("number of nodes", str(row.node_count)),
        ("nodes", names_text(row.nodes)),
        ("state", state_text(row)),
        ("for", span_text(row.end_wall_s - row.start_wall_s)),
    ]
    if not row.is_detailed:
        return pairs
    gives = "the whole machine" if row.resources is None else amounts_text(row.resources)
    return [
        *pairs,
        ("account", row.account),
        ("user", row.user),
        ("also used by", for_text(row.users, row.group)),
        ("each gives", gives),
        ("requires", row.requirements),
        ("asked for", iso_text(row.asked_wall_s)),
        ("lacks", names_text(row.missing)),
        ("repeated", f"{row.rule} in {row.zone}" if row.rule else ""),
        ("next", ", ".join(map(iso_text, row.following))),
        ("why", printable(reasons_text(row.reasons)) if row.reasons else ""),
        ("over since", iso_text(row.over_wall_s) if row.over_wall_s else ""),
        ("given back by", row.by),
    ]


def state_text(row: ReservationRow) -> str:
    """Return the state, with why it is over, or that it lacks nodes."""
    more = row.cause or ("degraded" if row.is_degraded else "")
    return f"{row.state}, {more}" if more else row.state


app = CommandGroup(
    "Look at a reservation, change it, or give it back; 'iriai reserve' makes one.",
    {
        show: (("iriai reservation show ume-r7", "when and where it is, and what it gives"),),
        modify: EXAMPLES,
        cancel: (
            ("iriai reservation cancel ume-r7", "give it back"),
            ("iriai reservation cancel ume-r7.3", "the third occurrence of a series alone"),
        ),
        end: (("iriai reservation end ume-r7", "give back the rest of one that is open"),),
    },
)
