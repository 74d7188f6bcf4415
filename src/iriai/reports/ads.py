"""Ads of machines, and which of them match requirements: of one cluster, and of a whole site."""

from __future__ import annotations

from operator import attrgetter

from msgspec.structs import replace

from iriai.broker.machines.matchmaking import ad_of, measured
from iriai.broker.scheduling.machine_reasons import evidence_against
from iriai.broker.state.state import BrokerState
from iriai.classad.constraint import Constraint, condition
from iriai.classad.expression import parse_expression
from iriai.classad.volatile_attributes import clock_attributes
from iriai.cluster.broker_questions import ClusterReply, missing_text
from iriai.machine.core import Machine
from iriai.model.ad import Value, attributes_of, job_attributes
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Unreachable
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.wire.inquiries import AskMatchFor
from iriai.wire.machines import AdList, AdRow, AskAds, ClauseRow, MatchRow, MatchTable

ROWS_MAX = 1_000
"""Machines in an answer to `match`: whoever has more looks at those that are closest."""


def known_ads(machine: Machine, asked: AskAds, now: Instant) -> AdList:
    """Return the ads that the broker here knows; on a back end, its own."""
    rows = []
    if Part.BROKER in machine.parts:
        for view in machine.broker.state.machines.values():
            static = attributes_of(ad_of(view))
            shown = static | measured(view) | clock_attributes(now.wall_s, static)
            rows.append(AdRow(view.name, shown, view.ad.requirements, view.ad.rank))
    elif Part.NODE in machine.parts:
        own, shown = machine.node.settings.ad, machine.node.agreement.attributes(now.wall_s)
        words = (own.requirements, own.rank) if own else ("", "")
        rows.append(AdRow(machine.name, shown, *words))
    found = (row for row in rows if asked.machine in ("", row.name))
    return AdList(tuple(sorted(found, key=attrgetter("name"))))


def ads_without_broker(machine: Machine, asked: AskAds, missing: str, now: Instant) -> AdList:
    """Return the ads that are known here although the broker did not answer: `missing` says why."""
    note = missing + ("" if asked.machine else "; it has the attributes of other machines")
    return replace(known_ads(machine, asked, now), note=note)


def ads_of_site(
    asked: AskAds, cluster: str, near: AdList, others: list[ClusterReply[AdList]]
) -> AdList:
    """Return the ads of the own cluster, named `cluster`, with those of the others.

    Raises:
        NotFound: the machine that was asked for is nowhere.
        Unreachable: it may be known to a broker that did not answer.
    """
    if others:
        lists = [(cluster, near)] + [(o.cluster, o.answer) for o in others if o.answer is not None]
        rows = [replace(row, cluster=name) for name, each in lists for row in each.rows]
        note = "; ".join(filter(None, (near.note, missing_text(others))))
        near = AdList(tuple(sorted(rows, key=attrgetter("name"))), note)
    if near.rows or not asked.machine:
        return near
    if near.note:
        raise broker_silent(near.note)
    raise NotFound(
        "no-such-machine",
        f"{asked.machine} is not a machine with attributes here",
        "list those that have them with 'iriai ads'",
    )


def match_table(state: BrokerState, question: AskMatchFor, now: Instant) -> MatchTable:
    """Return which machines of the broker match; raise `UsageProblem` for wrong requirements."""
    wanted = parse_expression(question.requirements, "the requirements", patterns=True)
    matches = state.matching.begin()
    state.tick(now.wall_s)
    account = Account(question.group, question.user)
    described = job_attributes(account, Resources(), None, 1.0, exclusive=False)
    job = {name.lower(): value for name, value in described.items()}
    asks = condition(wanted.text, patterns=True)
    clauses = tuple(
        ClauseRow(clause.text, int(matches.holding(clause, job).sum()))
        for clause in wanted.clauses()
    )
    _, admits = matches.judge(asks, job, None)
    places = ((name, matches.row(name)) for name in state.machines)
    rows = [
        MatchRow(name, True, (), ()) if admits[row] else _failing(state, name, asks, job)
        for name, row in places
        if row is not None
    ]
    return MatchTable(wanted.text, clauses, _closest(rows))


def matches_of_site(
    cluster: str, near: MatchTable, others: list[ClusterReply[MatchTable]]
) -> MatchTable:
    """Return the matches of the own cluster, named `cluster`, with those of the others."""
    if not others:
        return near
    tables = [(cluster, near)] + [(o.cluster, o.answer) for o in others if o.answer is not None]
    rows = [replace(row, cluster=name) for name, table in tables for row in table.rows]
    holds: dict[str, int] = {}
    for _, table in tables:
        for clause in table.clauses:
            holds[clause.text] = holds.get(clause.text, 0) + clause.machines
    clauses = tuple(ClauseRow(text, machines) for text, machines in holds.items())
    return MatchTable(near.requirements, clauses, _closest(rows), missing_text(others))


def broker_silent(words: str) -> Unreachable:
    """Return the problem that a broker did not answer, which `words` say."""
    return Unreachable(
        "broker-silent",
        f"{words}, and only the broker knows the attributes of all machines",
        "if it is gone, another machine replaces it within seconds: ask again",
    )


def _failing(state: BrokerState, name: str, asks: Constraint, job: dict[str, Value]) -> MatchRow:
    ours, owners = evidence_against(state, name, asks, job)
    return MatchRow(name, False, tuple(ours), tuple(owners))


def _closest(rows: list[MatchRow]) -> tuple[MatchRow, ...]:
    """Sort machines that match first, then by the number of failing clauses."""
    rows.sort(key=lambda row: (not row.matches, len(row.failing) + len(row.owner), row.machine))
    return tuple(rows[:ROWS_MAX])
