"""The terms of a reservation from what a client asks for, or a refusal with its reason."""

from __future__ import annotations

from iriai.classad.installation import canonical
from iriai.client.wall_time import iso_text
from iriai.jobs.validation import checked_resources
from iriai.model.ids import Account, parse_reservation_id
from iriai.model.problem import NotFound, UsageProblem
from iriai.model.reservation import (
    LENGTH_MAX_S,
    LENGTH_MIN_S,
    NODES_MAX,
    ReservationTerms,
)
from iriai.model.resources import Resources
from iriai.model.units import format_duration, printable
from iriai.wire.reservations import Reserve

TIME_MAX_S = 32_503_680_000.0
"""The year 3000."""


def checked_terms(
    body: Reserve,
    account: Account,
    user: str,
    use_by: tuple[tuple[str, ...], str],
    now_wall_s: float,
) -> ReservationTerms:
    """Return the terms; `use_by` are the users and the group that may use it as well.

    Raises `UsageProblem` if they cannot be, `Refused` without the extra that reads requirements.
    """
    start_s, end_s = body.start_wall_s, body.end_wall_s
    if body.is_earliest and start_s < now_wall_s:
        start_s, end_s = now_wall_s, end_s + (now_wall_s - start_s)
    check_times(start_s, end_s, now_wall_s)
    if not 1 <= body.nodes <= NODES_MAX:
        raise UsageProblem(
            "bad-nodes",
            f"{body.nodes} nodes cannot be reserved",
            f"use 1 to {NODES_MAX:,}",
        )
    return ReservationTerms(
        account,
        user,
        start_s,
        end_s,
        body.nodes,
        _resources(body),
        canonical(body.requirements, "--requirements"),
        *use_by,
        is_earliest=body.is_earliest,
    )


def check_times(start_wall_s: float, end_wall_s: float, now_wall_s: float) -> None:
    """Raise `UsageProblem` if nothing can be reserved from this start to this end."""
    if max(start_wall_s, end_wall_s) > TIME_MAX_S:
        raise UsageProblem("bad-time", "there is no time so far ahead", "give an earlier one")
    if min(start_wall_s, end_wall_s) < 0:
        raise UsageProblem("bad-time", "such a time is over", "give one that lies ahead")
    length_s = end_wall_s - start_wall_s
    times = f"{iso_text(start_wall_s)} to {iso_text(end_wall_s)}"
    if end_wall_s <= now_wall_s:
        raise UsageProblem("bad-time", f"{times} is over", "give a time that lies ahead")
    if length_s <= 0:
        raise UsageProblem("bad-time", f"{times} ends before it starts", "give a later end")
    if not LENGTH_MIN_S <= length_s <= LENGTH_MAX_S:
        least, most = format_duration(LENGTH_MIN_S), format_duration(LENGTH_MAX_S)
        raise UsageProblem(
            "bad-time",
            f"{times} is {format_duration(length_s)} long",
            f"reserve for {least} to {most}",
        )


def _resources(body: Reserve) -> Resources | None:
    """Return what each node gives; None: all that it has."""
    if body.cpus is body.memory_bytes is body.gpus is None and not body.named:
        return None
    cpus = 1 if body.cpus is None else body.cpus
    return checked_resources(Resources(cpus, body.memory_bytes or 0, body.gpus or 0, body.named))


def number_at(home: str, text: str) -> int:
    """Return the number of the reservation of this home that `text` names.

    Raises `UsageProblem` if it is no id of a reservation, `NotFound` if it is another home's.
    """
    named = parse_reservation_id(text)
    if named.home != home:
        raise NotFound(
            "no-such-reservation",
            f"{printable(text)} is not a reservation of this home",
            f"ids here begin with {home}-r; ask on {named.home}",
        )
    return named.number
