"""Handlers of `iriai drain` and `resume`, here or for another machine."""

from __future__ import annotations

from dataclasses import dataclass

from iriai.daemon.loop.engine import Engine
from iriai.daemon.net.link import MachineLink
from iriai.daemon.net.local_links import LocalLinks
from iriai.daemon.server.connections import Handlers, RequestContext
from iriai.daemon.server.request_scheduling import Answerable, DeferredReplies
from iriai.daemon.startup.kept_drain import check_reason
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Problem, Refused
from iriai.wire.exchange import Done
from iriai.wire.links import Bid, Obeyed
from iriai.wire.machines import Drain, Resume
from iriai.wire.requests import AnswerBody


@dataclass(frozen=True, slots=True)
class _Bidder:
    """An operator at the front end, who is answered over a link."""

    link: MachineLink
    number: int

    def answer(self, body: AnswerBody) -> None:
        """Report success."""
        self.link.send_frame(Obeyed(self.number))

    def fail(self, problem: Problem) -> None:
        """Report a problem."""
        words = (problem.exit_code, problem.code, problem.message, problem.hint)
        self.link.send_frame(Obeyed(self.number, *words))


class DrainHandlers:
    """Handlers of drain and resume."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        unstored: DeferredReplies,
        links: LocalLinks | None,
    ) -> None:
        """`links` are the links with back ends; None on a back end."""
        self._settings = settings
        self._engine = engine
        self._deferred = unstored
        self._links = links

    def handlers(self) -> Handlers:
        """Return the handler of each request."""
        return {Drain: self._change, Resume: self._change}

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """Carry out the request of an operator of the front end."""
        bidder = _Bidder(link, bid.number)

        def handle(now: Instant) -> None:
            try:
                self._change_here(bidder, bid.body, bid.by, now)
            except Problem as problem:
                bidder.fail(problem)

        self._engine.request(handle)

    # --- changing --------------------------------------------------------------------------------

    def _change(self, asked: RequestContext, body: Drain | Resume, now: Instant) -> None:
        self._settings.require_operator(asked.caller, "drain or resume machines")
        if isinstance(body, Drain):
            check_reason(body.reason)
        name = body.node or self._settings.home
        if name == self._settings.home and self._settings.role.has_node:
            self._change_here(asked, body, asked.caller.person.name, now)
            return
        known = self._links.known.names() if self._links else []
        if name not in known:
            own = [self._settings.home] if self._settings.role.has_node else []
            there = ", ".join([*own, *known]) or "none yet"
            raise NotFound(
                "no-such-machine",
                f"{name} is not a machine that runs tasks for {self._settings.home}",
                f"use one of: {there}",
            )
        assert self._links is not None
        self._links.pass_on(asked, name, body)

    def _change_here(self, asked: Answerable, body: Drain | Resume, by: str, now: Instant) -> None:
        self._deferred.check()
        node = self._engine.machine.node
        if isinstance(body, Drain):
            node.drain(body.reason, by, now)
        elif not node.resume(by, now):
            other = node.unavailable()
            raise Refused(
                "not-drained",
                f"{self._settings.home} is not drained",
                f"it takes nothing because of {other}" if other else "it takes tasks",
            )
        self._deferred.answer(asked, Done())
