"""Handlers of `iriai ads` and `iriai match`."""

from __future__ import annotations

from functools import partial

from iriai.classad.expression import parse_expression
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.identity.users.permissions import Permissions
from iriai.model.instant import Instant
from iriai.reports.ads import (
    ads_of_site,
    ads_without_broker,
    broker_silent,
    known_ads,
    match_table,
    matches_of_site,
)
from iriai.system.extras import need_extra
from iriai.wire.inquiries import AskMatchFor
from iriai.wire.machines import AdList, AskAds, AskMatch, MatchTable


class AdHandlers:
    """Handlers of the requests about ads."""

    def __init__(self, engine: Engine, users: Permissions, inquirer: BrokerRpc) -> None:
        self._engine = engine
        self._users = users
        self._inquirer = inquirer
        inquirer.answerers[AskAds] = partial(known_ads, engine.machine)
        inquirer.answerers[AskMatchFor] = self._match_here

    @handles(AskAds)
    async def _ads(self, asked: RequestContext, body: AskAds) -> AdList:
        machine = self._engine.machine
        reply = await self._inquirer.ask(body, AdList)
        near = reply.checked()
        if near is None:
            near = ads_without_broker(machine, body, reply.missing, self._engine.now)
        if body.machine and near.rows:
            return near
        others = await self._inquirer.ask_clusters(body, AdList)
        return ads_of_site(body, machine.cluster, near, others)

    @handles(AskMatch)
    async def _match(self, asked: RequestContext, body: AskMatch) -> MatchTable:
        need_extra("classads", "to match requirements")
        parse_expression(body.requirements, "the requirements", patterns=True)
        account = self._users.account(asked.caller.person, None, None)
        question = AskMatchFor(body.requirements, account.group, account.user)
        reply = await self._inquirer.ask(question, MatchTable)
        near = reply.checked()
        if near is None:
            raise broker_silent(reply.missing)
        others = await self._inquirer.ask_clusters(question, MatchTable)
        return matches_of_site(self._engine.machine.cluster, near, others)

    def _match_here(self, question: AskMatchFor, now: Instant) -> MatchTable:
        need_extra("classads", "to match requirements on the broker's machine")
        return match_table(self._engine.machine.broker.state, question, now)
