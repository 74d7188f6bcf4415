"""Handler of `iriai nodes --forget`: removes a machine that is gone for good from the list."""

from __future__ import annotations

from collections.abc import Callable

from iriai.daemon.cluster.seen_member import SeenMember
from iriai.daemon.loop.engine import Engine
from iriai.daemon.net.local_links import LocalLinks
from iriai.daemon.server.connections import Handlers, RequestContext
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.instant import Instant
from iriai.model.problem import NotAllowed, NotFound, Refused
from iriai.wire.exchange import Done
from iriai.wire.machines import Forget


class ForgetHandler:
    """The handler of `Forget`."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        links: LocalLinks | None,
        seen: Callable[[], list[SeenMember]],
    ) -> None:
        """`links` are a front end's; None: a back end. `seen` gives the members of its cluster."""
        self._settings = settings
        self._engine = engine
        self._links = links
        self._seen = seen

    def handlers(self) -> Handlers:
        """Each request's handler."""
        return {Forget: self._forget}

    def _forget(self, asked: RequestContext, body: Forget, now: Instant) -> None:
        name, home = body.node, self._settings.home
        if not asked.caller.operator:
            raise NotAllowed(
                "not-an-operator",
                f"{asked.caller.person.name} may not remove machines from the list",
                f"members of the group {self._settings.configuration.identity.operators} may",
            )
        if self._links is None:
            raise Refused(
                "no-front-end",
                f"{home} is a back end, which lists no other machine",
                "run the command for its front end, with --state and the front end's state "
                "directory",
            )
        if name == home:
            raise Refused(
                "own-machine",
                f"{name} is this machine",
                "to stop it use 'iriai down'; to remove it, ask another machine",
            )
        self._check_is_no_member(name)
        known = self._known()
        if name not in known:
            broker = self._engine.machine.broker_at
            raise NotFound(
                "no-such-machine",
                f"{name} is not on the list of {home}",
                f"its list has: {', '.join(known) or 'none'}"
                + (
                    f"; in this cluster the broker lists the machines: ask {broker}"
                    * (broker != home)
                ),
            )
        if self._links.is_up(name):
            raise Refused(
                "linked",
                f"{name} is online, and linked",
                "only a machine that is gone for good can be removed; use 'iriai drain' to "
                "keep one from starting tasks",
            )
        self._engine.machine.forget(name, now)
        self._links.forget(name)
        asked.answer(Done())

    def _known(self) -> list[str]:
        """Back ends, and whatever else the broker lists where it is here."""
        assert self._links is not None
        machine, home = self._engine.machine, self._settings.home
        told = list(machine.broker.state.machines) if machine.broker_at == home else []
        return [name for name in dict.fromkeys((*self._links.known.names(), *told)) if name != home]

    def _check_is_no_member(self, name: str) -> None:
        """Raise where it is one: members come and go by what the whole cluster knows of them."""
        state = next((each.member for each in self._seen() if each.member.name == name), None)
        if state is None:
            return
        if state.is_present:
            raise Refused(
                "member",
                f"{name} is a member of the cluster, and {state.state}",
                "take it out with 'iriai leave' there, or remove it with 'iriai eject'",
            )
        raise Refused(
            "member",
            f"{name} is a member of the cluster, and {state.state}: members remove it by "
            "themselves, six hours after it last published something",
            f"nothing is to do; 'iriai eject {name}' refuses it if it comes back",
        )
