"""Handlers of `iriai owner`: what runs on this machine, and the word of its owner."""

from __future__ import annotations

from math import inf

from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import Caller
from iriai.model.admission_rules import ALL
from iriai.model.problem import NotAllowed
from iriai.protocol.messages.effects import OwnerSaid
from iriai.reports.owner import owner_of, owner_report
from iriai.wire.owner import AskOwner, OwnerReport, SayOwner


class OwnerHandlers:
    """Handlers of requests about the owner of this machine."""

    def __init__(self, settings: DaemonSettings, engine: Engine, durability: Durability) -> None:
        self._settings = settings
        self._engine = engine
        self._durability = durability

    @handles(AskOwner)
    async def _shown(self, asked: RequestContext, body: AskOwner) -> OwnerReport:
        return self._report()

    @handles(SayOwner)
    async def _said(self, asked: RequestContext, body: SayOwner) -> OwnerReport:
        self._report()  # or it is refused
        check_owner(self._settings, asked.caller)
        node, now = self._engine.machine.node, self._engine.now
        for_s = inf if body.for_s is None else body.for_s
        node.take(OwnerSaid(body.word, for_s, body.vacates), now)
        await self._durability.stored()
        return self._report()

    def _report(self) -> OwnerReport:
        machine, now = self._engine.machine, self._engine.now
        node = machine.node if self._settings.role.has_node else None
        owner = owner_of(node, self._settings.home)
        return owner_report(machine.node, owner, now)


def check_owner(settings: DaemonSettings, caller: Caller) -> None:
    """Raise `NotAllowed` if they are neither the owner nor an operator."""
    users, person = settings.configuration.owner.users, caller.person
    is_owner = person.name in users or ALL in users or person.uid == settings.owner_uid
    if not (caller.operator or is_owner or _sits_here(person.uid)):
        raise NotAllowed(
            "not-the-owner",
            f"{person.name} may not speak for the owner of this machine",
            "its owner may: who sits at it, or [owner] users in its iriai.toml; so may operators",
        )


def _sits_here(uid: int) -> bool:
    from iriai.host.seats import active_users  # few machines have an owner who asks

    return uid in active_users()
