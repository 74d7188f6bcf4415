"""The terms of a reservation from what a client asks for, or a refusal with its reason."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.classad.installation import canonical
from iriai.jobs.validation import checked_resources
from iriai.model.ids import Account, parse_reservation_id
from iriai.model.problem import NotFound, UsageProblem
from iriai.model.reservation import HORIZON_S, ReservationTerms, terms_problem
from iriai.model.resources import Resources
from iriai.model.units import printable
from iriai.wire.reservations import ModifyReservation, Reserve

TIME_MAX_S = 32_503_680_000.0
"""The year 3000."""


def checked_terms(
    body: Reserve,
    account: Account,
    user: str,
    use_by: tuple[tuple[str, ...], str],
    now_wall_s: float,
    horizon_s: float = HORIZON_S,
) -> ReservationTerms:
    """Return the terms; `use_by` are the users and the group that may use it as well.

    Raises `UsageProblem` if they cannot be; `Refused` where they are too far ahead, or without the
    extra that reads requirements.
    """
    start_s, end_s = body.start_wall_s, body.end_wall_s
    if body.is_earliest and start_s < now_wall_s:
        start_s, end_s = now_wall_s, end_s + (now_wall_s - start_s)
    if not (0 <= start_s <= TIME_MAX_S and 0 <= end_s <= TIME_MAX_S):
        raise UsageProblem("bad-time", "there is no such time", "give one that lies ahead")
    terms = ReservationTerms(
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
    problem = terms_problem(terms, now_wall_s, horizon_s)
    if problem is not None:
        raise problem
    return terms


def changed_terms(
    body: ModifyReservation, terms: ReservationTerms, use_by: tuple[tuple[str, ...], str] | None
) -> ReservationTerms:
    """Return the terms of a reservation as somebody wants them from now on.

    Raises `UsageProblem` if nothing is changed, or there is no such time; as `checked_terms` for
    requirements.
    """
    start_s = terms.start_wall_s if body.start_wall_s is None else body.start_wall_s
    end_s = start_s + terms.length_s if body.end_wall_s is None else body.end_wall_s
    if not (0 <= start_s <= TIME_MAX_S and 0 <= end_s <= TIME_MAX_S):
        raise UsageProblem("bad-time", "there is no such time", "give one that lies ahead")
    requirements = terms.requirements
    if body.requirements is not None:
        requirements = canonical(body.requirements, "--requirements")
    users, group = (terms.users, terms.group) if use_by is None else use_by
    changed = replace(
        terms,
        start_wall_s=start_s,
        end_wall_s=end_s,
        nodes=terms.nodes if body.nodes is None else body.nodes,
        resources=_changed_resources(body, terms.resources),
        requirements=requirements,
        users=users,
        group=group,
        is_earliest=False,
    )
    if changed == replace(terms, is_earliest=False):
        hint = "give what is to change: -s, -e, -d, -n, --cpus, --requirements or --for"
        raise UsageProblem("nothing-changed", "the reservation is so already", hint)
    return changed


def _changed_resources(body: ModifyReservation, before: Resources | None) -> Resources | None:
    """Return what each node gives from now on; None: all that it has."""
    if body.is_whole:
        return None
    if body.cpus is body.memory_bytes is body.gpus is None and not body.named:
        return before
    known = before or Resources(1)
    cpus = known.cpus if body.cpus is None else body.cpus
    memory_bytes = known.memory_bytes if body.memory_bytes is None else body.memory_bytes
    gpus = known.gpus if body.gpus is None else body.gpus
    named = tuple((dict(known.named) | dict(body.named)).items())
    return checked_resources(Resources(cpus, memory_bytes, gpus, named))


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
