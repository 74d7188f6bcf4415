"""What `iriai ads` and `iriai match` are answered, and which jobs no machine could ever run."""

from __future__ import annotations

from iriai.broker.explain import evidence_against
from iriai.broker.matching import ad_of, measured
from iriai.classad.condition import Condition, condition
from iriai.classad.expression import parse_expression
from iriai.classad.moment import clock_attributes
from iriai.daemon.clients import Asked, Handler
from iriai.daemon.engine import Engine
from iriai.daemon.settings import Settings
from iriai.identity.users import Users
from iriai.model.ad import Value, attributes_of, job_attributes
from iriai.model.instant import Instant
from iriai.model.problem import NotFound
from iriai.model.resources import Resources
from iriai.protocol.effects import Part
from iriai.wire.ads import AdList, AdRow, AskAds, AskMatch, ClauseRow, MatchRow, MatchTable

ROWS_MAX = 1_000
"""Machines in an answer to `match`: whoever has more looks at those that are closest."""


class AdAnswers:
    """Handlers of the requests about ads; see the module."""

    def __init__(self, settings: Settings, engine: Engine, users: Users) -> None:
        self._settings = settings
        self._engine = engine
        self._users = users

    def handlers(self) -> dict[type, Handler]:
        """Each request's handler."""
        of_home: dict[type, Handler] = {AskMatch: self._match}
        return (of_home if self._settings.role.has_home else {}) | {AskAds: self._ads}

    # --- ads -------------------------------------------------------------------------------------

    def _ads(self, asked: Asked, body: AskAds, now: Instant) -> None:
        rows = {row.name: row for row in self._rows(now)}
        if not body.machine:
            asked.answer(AdList(tuple(rows[name] for name in sorted(rows))))
            return
        if body.machine not in rows:
            raise NotFound(
                "no-such-machine",
                f"{body.machine} is no machine that has told its ad here",
                f"there are: {', '.join(sorted(rows)) or 'none yet'}",
            )
        asked.answer(AdList((rows[body.machine],)))

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

    def _match(self, asked: Asked, body: AskMatch, now: Instant) -> None:
        wanted = parse_expression(body.requirements, "the requirements", patterns=True)
        state = self._engine.machine.broker.state
        matches = state.matching.begin()
        state.tick(now.wall_s)
        person = asked.caller.person
        account = self._users.account(person, None, None)
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
            assert row is not None
            rows.append(self._row(name, asks, job, is_match=bool(admits[row])))
        rows.sort(key=lambda row: (not row.matches, len(row.failing) + len(row.owner), row.machine))
        asked.answer(MatchTable(wanted.text, clauses, tuple(rows[:ROWS_MAX])))

    def _row(
        self, name: str, asks: Condition, job: dict[str, Value], *, is_match: bool
    ) -> MatchRow:
        if is_match:
            return MatchRow(name, True, (), ())
        ours, owners = evidence_against(self._engine.machine.broker.state, name, asks, job)
        return MatchRow(name, False, tuple(ours), tuple(owners))
