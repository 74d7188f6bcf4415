"""Handlers of `iriai ads` and `iriai match`, and the check for jobs that no machine could run."""

from __future__ import annotations

from operator import attrgetter

from msgspec.structs import replace

from iriai.broker.pool.matchmaking import ad_of, measured
from iriai.broker.scheduling.explain import evidence_against
from iriai.classad.constraint import Constraint, condition
from iriai.classad.expression import parse_expression
from iriai.classad.volatile_attributes import clock_attributes
from iriai.cluster.broker_questions import ClusterReply, missing_text
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import Permissions
from iriai.model.ad import Value, attributes_of, job_attributes
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Unreachable
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.system.extras import need_extra
from iriai.wire.inquiries import AskMatchFor
from iriai.wire.machines import AdList, AdRow, AskAds, AskMatch, ClauseRow, MatchRow, MatchTable

ROWS_MAX = 1_000
"""Machines in an answer to `match`: whoever has more looks at those that are closest."""


class AdHandlers:
    """Handlers of the requests about ads."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        users: Permissions,
        inquirer: BrokerRpc,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._users = users
        self._inquirer = inquirer
        inquirer.answerers[AskAds] = self._list
        inquirer.answerers[AskMatchFor] = self._match_table

    # --- ads -------------------------------------------------------------------------------------

    @handles(AskAds)
    async def _ads(self, asked: RequestContext, body: AskAds) -> AdList:
        clusters = self._inquirer.clusters
        reply = await self._inquirer.ask(body, AdList)
        if reply.problem is not None:
            raise reply.problem
        near, note = reply.answer, reply.missing
        if near is None:
            note += "" if body.machine else "; it has the attributes of other machines"
            near = AdList(tuple(self._asked_rows(body, self._engine.now)), note)
        if body.machine and near.rows:
            return near
        words = await clusters.ask(body, AdList)
        return self._named(body, _all_ads(clusters.own, near, words))

    def _list(self, body: AskAds, now: Instant) -> AdList:
        """Return the ads that the broker knows; on a back end, its own."""
        return AdList(tuple(sorted(self._asked_rows(body, now), key=attrgetter("name"))))

    def _named(self, body: AskAds, found: AdList) -> AdList:
        """Return `found`; raise a `Problem` if the machine that `body` names is not in it."""
        if not body.machine or found.rows:
            return found
        if found.note:
            raise _silent(found.note)
        raise NotFound(
            "no-such-machine",
            f"{body.machine} is not a machine with attributes here",
            "list those that have them with 'iriai ads'",
        )

    def _asked_rows(self, body: AskAds, now: Instant) -> list[AdRow]:
        return [row for row in self._rows(now) if body.machine in ("", row.name)]

    def _rows(self, now: Instant) -> list[AdRow]:
        machine = self._engine.machine
        if Part.BROKER not in machine.parts:
            if Part.NODE not in machine.parts:
                return []
            own = machine.node.settings.ad
            return [
                AdRow(
                    self._settings.home,
                    machine.node.agreement.attributes(now.wall_s),
                    own.requirements if own else "",
                    own.rank if own else "",
                )
            ]
        rows = []
        for view in machine.broker.state.machines.values():
            static = attributes_of(ad_of(view))
            shown = static | measured(view) | clock_attributes(now.wall_s, static)
            rows.append(AdRow(view.name, shown, view.ad.requirements, view.ad.rank))
        return rows

    # --- matching --------------------------------------------------------------------------------

    @handles(AskMatch)
    async def _match(self, asked: RequestContext, body: AskMatch) -> MatchTable:
        need_extra("classads", "to match requirements")
        parse_expression(body.requirements, "the requirements", patterns=True)
        account = self._users.account(asked.caller.person, None, None)
        clusters = self._inquirer.clusters
        question = AskMatchFor(body.requirements, account.group, account.user)
        reply = await self._inquirer.ask(question, MatchTable)
        if reply.answer is None:
            raise reply.problem or _silent(reply.missing)
        words = await clusters.ask(question, MatchTable)
        return _together(clusters.own, reply.answer, words) if words else reply.answer

    def _match_table(self, question: AskMatchFor, now: Instant) -> MatchTable:
        """Answer as the broker."""
        need_extra("classads", "to match requirements on the broker's machine")
        wanted = parse_expression(question.requirements, "the requirements", patterns=True)
        state = self._engine.machine.broker.state
        matches = state.matching.begin()
        state.tick(now.wall_s)
        account = Account(question.group, question.user)
        job = {
            name.lower(): value
            for name, value in job_attributes(
                account, Resources(), None, 1.0, exclusive=False
            ).items()
        }
        asks = condition(wanted.text, patterns=True)
        clauses = tuple(
            ClauseRow(clause.text, int(matches.holding(clause, job).sum()))
            for clause in wanted.clauses()
        )
        _, admits = matches.judge(asks, job, None)
        rows = []
        for name in state.machines:
            row = matches.row(name)
            if row is not None:
                rows.append(self._row(name, asks, job, is_match=bool(admits[row])))
        rows.sort(key=_closeness)
        return MatchTable(wanted.text, clauses, tuple(rows[:ROWS_MAX]))

    def _row(
        self, name: str, asks: Constraint, job: dict[str, Value], *, is_match: bool
    ) -> MatchRow:
        if is_match:
            return MatchRow(name, True, (), ())
        ours, owners = evidence_against(self._engine.machine.broker.state, name, asks, job)
        return MatchRow(name, False, tuple(ours), tuple(owners))


def _all_ads(cluster: str, near: AdList, words: list[ClusterReply[AdList]]) -> AdList:
    """Return the ads of the own cluster, named `cluster`, with those of the others."""
    if not words:
        return near
    lists = [(cluster, near)] + [(w.cluster, w.answer) for w in words if w.answer is not None]
    rows = [replace(row, cluster=name) for name, each in lists for row in each.rows]
    note = "; ".join(filter(None, (near.note, missing_text(words))))
    return AdList(tuple(sorted(rows, key=attrgetter("name"))), note)


def _together(cluster: str, near: MatchTable, words: list[ClusterReply[MatchTable]]) -> MatchTable:
    """Return the matches of the own cluster, named `cluster`, with those of the others."""
    tables = [(cluster, near)] + [(w.cluster, w.answer) for w in words if w.answer is not None]
    rows = [replace(row, cluster=name) for name, table in tables for row in table.rows]
    holds: dict[str, int] = {}
    for _, table in tables:
        for clause in table.clauses:
            holds[clause.text] = holds.get(clause.text, 0) + clause.machines
    rows.sort(key=_closeness)
    clauses = tuple(ClauseRow(text, machines) for text, machines in holds.items())
    return MatchTable(near.requirements, clauses, tuple(rows[:ROWS_MAX]), missing_text(words))


def _closeness(row: MatchRow) -> tuple[bool, int, str]:
    """Return a sort key: machines that match first, then by the number of failing clauses."""
    return not row.matches, len(row.failing) + len(row.owner), row.machine


def _silent(words: str) -> Unreachable:
    return Unreachable(
        "broker-silent",
        f"{words}, and only the broker knows the attributes of all machines",
        "if it is gone, another machine replaces it within seconds: ask again",
    )
