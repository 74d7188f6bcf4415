"""Handlers of the requests about reservations; what few ask for is loaded when it is asked for."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.tasks.notifications import check_notice
from iriai.identity.users.permissions import Permissions
from iriai.jobs.views import amounts
from iriai.model.ids import ReservationId, parse_reservation_id
from iriai.model.instant import Instant
from iriai.model.problem import NotAllowed, NotFound, Refused
from iriai.model.reservation import Reservation, ReservationTerms
from iriai.model.reservation_news import Notification
from iriai.protocol.messages.effects import Part, ReservationAnswered
from iriai.wire.exchange import Done
from iriai.wire.inquiries import AskOffer, NodeOffer
from iriai.wire.reservations import (
    FOLLOWING_MAX,
    AskReservations,
    EndReservation,
    ModifyReservation,
    ReservationPlan,
    ReservationRow,
    ReservationTable,
    Reserve,
    Reserved,
    ReservedSeries,
)

REASONS_TOLD_MAX = 8
"""Of a refusal: more than one line has room for."""


class ReservationHandlers:
    """Handlers of the requests about reservations."""

    def __init__(
        self,
        home: str,
        engine: Engine,
        users: Permissions,
        durability: Durability,
        inquirer: BrokerRpc,
        sendmail: str = "",
    ) -> None:
        """`sendmail` is the configured program for mail."""
        self._name = home
        self._sendmail = sendmail
        self._engine = engine
        self._users = users
        self._durability = durability
        self._inquirer = inquirer
        self._asked: dict[int, Pending[ReservationAnswered]] = {}
        """Who asked for each reservation that is neither confirmed nor refused yet."""
        engine.routes.take(ReservationAnswered, self._answered)
        inquirer.answerers[AskReservations] = self._known
        inquirer.answerers[AskOffer] = self._offer

    def _known(self, _: AskReservations, now: Instant) -> ReservationTable:
        from iriai.reports.reservations import known_reservations

        return known_reservations(self._engine.machine, now)

    def _offer(self, question: AskOffer, now: Instant) -> NodeOffer:
        from iriai.reports.reservations import offer_now

        return offer_now(self._engine.machine, question, now)

    @handles(Reserve)
    async def _reserve(
        self, asked: RequestContext, body: Reserve
    ) -> Reserved | ReservedSeries | ReservationPlan:
        self._durability.check()
        from iriai.daemon.requests.reservations.terms import checked_terms

        person, now = asked.caller.person, self._engine.now
        self._users.check_may_run(person)
        account = self._users.account(person, body.group, body.account)
        use_by = self._users.users_and_group(body.use_by)
        horizon_s = inf if body.every else self._engine.machine.home.limits.horizon_s
        terms = checked_terms(body, account, person.name, use_by, now.wall_s, horizon_s)
        check_notice(body.notify, self._sendmail)
        if body.every:
            return await self._reserve_every(asked, body, terms)
        if body.dry_run:
            reply = await self._inquirer.ask(AskOffer(terms), NodeOffer)
            return _plan(terms, reply.checked(), reply.missing)
        reservations = self._engine.machine.home.reservations
        asked.is_changing = True
        return await self._reserved(reservations.ask(terms, now, _notification(body)).number)

    async def _reserved(self, number: int) -> Reserved:
        """Wait until all nodes have what was asked for; raise `Refused` if they do not get it."""
        pending = self._asked[number] = Pending()
        answer = await pending
        if not answer.is_confirmed:
            raise _refusal(answer)
        found = self._engine.machine.home.reservations.get(number)
        return Reserved(
            str(ReservationId(self._name, number)),
            found.terms.start_wall_s,
            found.terms.end_wall_s,
            found.nodes,
        )

    async def _reserve_every(
        self, asked: RequestContext, body: Reserve, terms: ReservationTerms
    ) -> ReservedSeries | ReservationPlan:
        from iriai.home.reservations.recurrence import canonical_rule

        reservations, now = self._engine.machine.home.reservations, self._engine.now
        rule, zone = canonical_rule(body.every), body.zone
        if body.dry_run:
            terms, times = reservations.plan_every(terms, rule, zone, FOLLOWING_MAX, now)
            reply = await self._inquirer.ask(AskOffer(terms), NodeOffer)
            plan = _plan(terms, reply.checked(), reply.missing)
            return replace(plan, rule=rule, zone=zone, following=tuple(times[1:]))
        asked.is_changing = True
        notification = _notification(body)
        series, first = reservations.ask_every(terms, rule, zone, now, notification)
        made = None if first is None else reservations.get(first.number)
        if made is not None and not made.is_over:
            pending = self._asked[made.number] = Pending()
            await pending
        await self._durability.stored()
        from iriai.reports.reservations import reserved_series

        made = None if made is None else reservations.get(made.number)
        return reserved_series(self._name, reservations.get(series.number), made)

    @handles(ModifyReservation)
    async def _modify(
        self, asked: RequestContext, body: ModifyReservation
    ) -> Reserved | ReservationPlan:
        self._durability.check()
        from iriai.daemon.requests.reservations.terms import changed_terms, number_at

        home, now = self._engine.machine.home, self._engine.now
        number = number_at(self._name, body.id)
        found = self._changeable(asked, number)
        home.reservations.check_stands(number, now)
        use_by = None if body.use_by is None else self._users.users_and_group(body.use_by)
        terms = changed_terms(body, found.terms, use_by)
        if body.dry_run:
            home.reservations.check_change(number, terms, now)
            question = AskOffer(terms, ReservationId(self._name, number), found.nodes)
            reply = await self._inquirer.ask(question, NodeOffer)
            return _plan(terms, reply.checked(), reply.missing)
        asked.is_changing = True
        home.reservations.modify(number, terms, now)
        return await self._reserved(number)

    def _changeable(self, asked: RequestContext, number: int) -> Reservation:
        """Return a reservation that whoever asks may change; raise `NotAllowed` if they may not."""
        found, caller = self._engine.machine.home.reservations.get(number), asked.caller
        if not caller.operator and caller.person.name != found.terms.user:
            raise NotAllowed(
                "not-yours",
                f"{ReservationId(self._name, number)} belongs to {found.terms.user}",
                "ask them, or a member of the operators' group",
            )
        return found

    def _answered(self, answer: ReservationAnswered) -> None:
        pending = self._asked.pop(answer.number, None)
        if pending is not None:
            pending.resolve(answer)

    @handles(AskReservations)
    async def _all(self, asked: RequestContext, body: AskReservations) -> ReservationTable:
        from iriai.reports.reservations import merged

        named = parse_reservation_id(body.id) if body.id else None
        has_home = Part.HOME in self._engine.machine.parts
        if named is not None and has_home and named.home == self._name:
            return ReservationTable((self._whole_row(asked, named.number),))
        own = self._own(asked, over=body.over) if has_home else []
        reply = await self._inquirer.ask(AskReservations(), ReservationTable)
        near = reply.checked()
        note = "" if near is not None else f"{reply.missing}; it knows those of other homes"
        table = merged(own, () if near is None else near.rows, note)
        if named is None:
            return table
        rows = tuple(row for row in table.rows if row.id == str(named))
        if not rows:
            raise _unknown(str(named), note)
        return ReservationTable(rows)

    def _own(self, asked: RequestContext, *, over: bool) -> list[ReservationRow]:
        reservations = self._engine.machine.home.reservations
        found = reservations.all(over=True) if over else reservations.listed(self._engine.now)
        return [self._row(asked, each) for each in found]

    def _whole_row(self, asked: RequestContext, number: int) -> ReservationRow:
        """Return one that is asked for alone; of a series with its next occurrences."""
        reservations = self._engine.machine.home.reservations
        reservation = reservations.get(number)
        row = self._row(asked, reservation)
        if reservation.repetition is None or not row.is_detailed:
            return row
        return replace(row, following=tuple(reservations.following(number, FOLLOWING_MAX)))

    def _row(self, asked: RequestContext, reservation: Reservation) -> ReservationRow:
        from iriai.reports.reservations import row_for

        caller = asked.caller
        name, groups = caller.person.name, self._users.groups_of(caller.person.name)
        return row_for(self._name, reservation, name, groups, is_operator=caller.operator)

    @handles(EndReservation)
    async def _end(self, asked: RequestContext, body: EndReservation) -> Done:
        self._durability.check()
        from iriai.daemon.requests.reservations.terms import number_at

        reservations = self._engine.machine.home.reservations
        number = number_at(self._name, body.id)
        self._changeable(asked, number)
        asked.is_changing = True
        change = reservations.end if body.is_open_only else reservations.cancel
        change(number, asked.caller.person.name, self._engine.now)
        await self._durability.stored()
        return Done()


def _notification(body: Reserve) -> Notification | None:
    return Notification(body.notify, body.notify_on) if body.notify else None


def _plan(terms: ReservationTerms, offer: NodeOffer | None, missing: str) -> ReservationPlan:
    """Return what would be asked for; `missing` says why the broker offers nothing."""
    known = NodeOffer() if offer is None else offer
    start_s = known.start_wall_s if known.machines else terms.start_wall_s
    return ReservationPlan(
        str(terms.account),
        start_s,
        start_s + terms.length_s,
        terms.nodes,
        None if terms.resources is None else amounts(terms.resources),
        terms.users,
        terms.group,
        known.machines,
        known.reasons,
        known.earliest_wall_s,
        missing if offer is None else "",
    )


def _refusal(answer: ReservationAnswered) -> Refused:
    """Return why a reservation is refused, with the earliest start that would do."""
    told = [str(each) for each in dict.fromkeys(answer.reasons)]
    more = len(told) - REASONS_TOLD_MAX
    shown = told[:REASONS_TOLD_MAX] + ([f"and {more} more"] if more > 0 else [])
    hint = "ask for fewer nodes, less of each, or another time"
    if answer.is_change:
        hint += "; it stays as it was"
    if answer.earliest_wall_s is not None:
        from iriai.client.wall_time import iso_text

        earliest = iso_text(answer.earliest_wall_s)
        hint = f"the earliest start is {earliest}: use -s {earliest}, or --earliest"
        if answer.is_change:
            hint = f"it stays as it was; the earliest start is {earliest}: use -s {earliest}"
    why = "; ".join(shown) or "it was cancelled, or the nodes did not agree"
    return Refused("cannot-be-reserved", f"these nodes cannot be had: {why}", hint)


def _unknown(name: str, note: str) -> NotFound:
    hint = (
        note or "'iriai reservations' lists those there are; one that is over is known at its home"
    )
    return NotFound("no-such-reservation", f"there is no reservation {name}", hint)
