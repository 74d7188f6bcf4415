"""Asks the broker whether a job could ever run, before it is accepted.

Others are asked only for what the machine here could not run itself: the broker of its cluster, and
those of other clusters for what that cluster could not run. Where one does not answer in time the
job is accepted, and `why` says later what it waits for. Submissions and alterations of one client
keep their order: what comes after one that waits for an answer waits behind it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from iriai.daemon.cluster.broker_rpc import (
    BrokerReply,
    BrokerRpc,
    ClusterReply,
    declined,
    problem_in,
)
from iriai.daemon.loop.engine import Engine
from iriai.daemon.requests.jobs.feasibility import Feasibility
from iriai.daemon.server.connections import ClientSession, RequestContext
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Refused
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.scheduling import Want
from iriai.wire.inquiries import AskFit, Declined, Fit
from iriai.wire.requests import Why

log = logging.getLogger(__name__)

REMEMBERED_S = 10.0
"""An answer is taken for true so long: of many like jobs submitted together one is asked for."""
REMEMBERED_MAX = 1_000
SILENT_S = 5.0
"""After a question without an answer no other is asked for so long: by then there is another
broker, and whoever submits many jobs does not wait for each."""
ASKED_MAX = 16
"""Different questions for one request of a client: alterations of many jobs. More are not asked."""

LINE_BYTES_MAX = 64 << 20
"""What one client has in line when more of its requests are refused: thousands of submissions, each
with its environment. The line is short again when the broker has answered, or has not, within
seconds."""
ALL_LINES_BYTES_MAX = 256 << 20
"""The same of all clients: as much as a single request may hold."""
REQUEST_BYTES = 2048
"""What a request takes in memory beside what came."""

CLUSTERS_TOLD_MAX = 3
"""Other clusters of which a refusal says what is wrong there: a few lines for people."""

Judge = Callable[[Want], None]
"""Raises `Refused` where no machine could ever run such a task, by what is known."""
Act = Callable[[Judge, Instant], None]
"""May raise a `Problem`, which is answered."""


Decided = Callable[[Declined | None, Instant], None]
"""Told why no machine of the site could run it; None: one may."""


class _Waiting(NamedTuple):
    asked: RequestContext
    wants: Sequence[Want]
    act: Act

    @property
    def size_bytes(self) -> int:
        return self.asked.size_bytes + REQUEST_BYTES * max(1, len(self.wants))


class _Line:
    """The requests of one client, from the first that waits for the broker on."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.size_bytes = 0


class _Known(NamedTuple):
    until_s: float
    refusal: Declined | None


class FeasibilityRequests:
    """Asks the broker whether a job could ever run, and keeps each client's order."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        inquirer: BrokerRpc,
        feasibility: Feasibility,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._inquirer = inquirer
        self.feasibility = feasibility
        self._known: OrderedDict[Want, _Known] = OrderedDict()
        self._silent_until_s = 0.0
        self._lines: dict[ClientSession, _Line] = {}
        self._lines_bytes = 0
        inquirer.answerers[AskFit] = self._fit

    @property
    def is_here(self) -> bool:
        """Return whether the broker is here and there is no other cluster to ask."""
        return self._inquirer.is_here and not self._inquirer.clusters.exist

    def _fit(self, question: AskFit, now: Instant) -> Fit:
        """Answer another machine as the broker."""
        lacking = self.feasibility.lacking(question.want.resources)
        waits_for = tuple(Why(each.rule, each.needed, each.had, each.machine) for each in lacking)
        verdict = self.feasibility.verdict(question.want)
        refusal = None if verdict.refusal is None else declined(verdict.refusal)
        return Fit(refusal, waits_for) if verdict.is_final else Fit(None, waits_for, refusal)

    def judged(self, asked: RequestContext, wants: Sequence[Want], now: Instant, act: Act) -> None:
        """Call `act` with a function that checks `wants`: now, or in a later turn.

        Raises `Refused`, and never calls `act`, if too many requests wait already.
        """
        waiting = _Waiting(asked, wants, act)
        if asked.connection in self._lines:  # even if the broker is local by now: keep the order
            self._enter(waiting)
        elif self.is_here:
            act(self.feasibility.check, now)
        else:
            self._enter(waiting)
            self._go_on(asked.connection, now)

    def waits_for(
        self,
        asked: RequestContext,
        want: Want,
        now: Instant,
        tell: Callable[[tuple[Why, ...]], None],
        *,
        may_wait: bool,
    ) -> None:
        """Call `tell` with the resources that such a task would wait for now.

        Fails `asked` if no machine could ever run it, unless it `may_wait` for one.
        """

        def on_reply(reply: BrokerReply[Fit], later: Instant) -> None:
            fit = reply.answer
            if reply.problem is not None:
                asked.fail(reply.problem)
            elif fit is None:
                broker = self._engine.machine.broker_at
                tell((Why("machine-away", "an answer of the broker", reply.missing, broker),))
            elif may_wait:
                tell(fit.waits_for)
            else:
                self._decide(want, fit, later, partial(decided, fit))

        def decided(fit: Fit, refusal: Declined | None, _now: Instant) -> None:
            if refusal is not None:
                asked.fail(problem_in(refusal))
            else:
                tell(fit.waits_for)

        self._inquirer.ask(AskFit(want), Fit, now, on_reply)

    # --- within ----------------------------------------------------------------------------------

    def _enter(self, waiting: _Waiting) -> None:
        """Append to the client's line; raise `Refused` if the line, or all lines, are full."""
        line = self._lines.get(waiting.asked.connection)
        if line is not None and line.size_bytes >= LINE_BYTES_MAX:
            raise _too_many(len(line.waiting), "on this connection", line.size_bytes)
        if self._lines_bytes >= ALL_LINES_BYTES_MAX:
            count = sum(len(each.waiting) for each in self._lines.values())
            raise _too_many(count, "of all clients", self._lines_bytes)
        if line is None:
            line = self._lines[waiting.asked.connection] = _Line()
        line.waiting.append(waiting)
        line.size_bytes += waiting.size_bytes
        self._lines_bytes += waiting.size_bytes

    def _leave(self, line: _Line) -> None:
        """Remove the first request of `line`."""
        size_bytes = line.waiting.popleft().size_bytes
        line.size_bytes -= size_bytes
        self._lines_bytes -= size_bytes

    def _go_on(self, connection: ClientSession, now: Instant) -> None:
        """Act on the requests of a line in order, up to the first that needs an answer."""
        line = self._lines[connection]
        while line.waiting:
            asked, wants, act = line.waiting[0]
            unknown = next((want for want in wants[:ASKED_MAX] if self._asks(want, now)), None)
            if unknown is not None:
                if self._ask(unknown, connection, now):
                    continue
                return
            try:
                act(partial(self._judge, now), now)
            except Problem as problem:
                asked.fail(problem)
            self._leave(line)
        del self._lines[connection]

    def _asks(self, want: Want, now: Instant) -> bool:
        """Return whether the broker has to be asked."""
        if self._runs_here(want) or self.is_here or now.steady_s < self._silent_until_s:
            return False
        known = self._known.get(want)
        return known is None or known.until_s <= now.steady_s

    def _runs_here(self, want: Want) -> bool:
        """Return whether this machine could run it, without evaluating expressions."""
        machine = self._engine.machine
        if Part.NODE not in machine.parts or want.requirements:
            return False
        own = machine.node.settings.ad
        is_choosy = own is not None and bool(own.requirements)
        return not is_choosy and want.resources.fits_in(self._settings.capacity)

    def _ask(self, want: Want, connection: ClientSession, now: Instant) -> bool:
        """Ask the broker; return whether it answered at once. Else the line goes on later."""
        is_asking, is_over = True, False

        def go_on(later: Instant) -> None:
            nonlocal is_over
            is_over = True
            if not is_asking:
                self._go_on(connection, later)

        def decided(refusal: Declined | None, later: Instant) -> None:
            self._known[want] = _Known(later.steady_s + REMEMBERED_S, refusal)
            self._known.move_to_end(want)
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
            go_on(later)

        def on_reply(reply: BrokerReply[Fit], later: Instant) -> None:
            if reply.answer is not None:
                self._decide(want, reply.answer, later, decided)
            elif reply.problem is not None:
                log.info("the broker did not answer whether a job could run: %s", reply.problem)
                decided(None, later)
            else:
                log.info("a job is accepted without the check: %s", reply.missing)
                self._silent_until_s = later.steady_s + SILENT_S
                go_on(later)

        self._inquirer.ask(AskFit(want), Fit, now, on_reply)
        is_asking = False
        return is_over

    def _decide(self, want: Want, fit: Fit, now: Instant, decided: Decided) -> None:
        """Call `decided` with the verdict of the own cluster, or of all if it is not final."""
        here = fit.here
        if here is None:
            decided(fit.refusal, now)
            return

        def on_reply(words: list[ClusterReply[Fit]], later: Instant) -> None:
            decided(_nowhere(here, words), later)

        self._inquirer.clusters.ask(AskFit(want), Fit, now, on_reply)

    def _judge(self, now: Instant, want: Want) -> None:
        self.feasibility.check(want)  # where the broker is elsewhere, what is plain here
        known = None if self.is_here else self._known.get(want)
        if known is not None and known.refusal is not None and now.steady_s < known.until_s:
            raise problem_in(known.refusal)


def _too_many(count: int, whose: str, size_bytes: int) -> Refused:
    return Refused(
        "too-many-submissions",
        f"{count} submissions and alterations {whose} ({size_bytes >> 20} MiB) already wait for "
        "the broker's answer",
        "try again in some seconds; submit many equal tasks as one job with --array",
    )


def _nowhere(here: Declined, words: list[ClusterReply[Fit]]) -> Declined | None:
    """Return the refusal of all clusters, from `here` of the own; None if one accepts."""
    refusals = []
    for word in words:
        refusal = None if word.answer is None else word.answer.refusal or word.answer.here
        if refusal is None:
            if word.answer is None:
                log.info(
                    "a job is accepted without the check: cluster %s: %s",
                    word.cluster,
                    word.missing,
                )
            return None
        refusals.append(f"in cluster {word.cluster}: {refusal.message}")
    told = [here.message, *refusals[:CLUSTERS_TOLD_MAX]]
    if len(refusals) > CLUSTERS_TOLD_MAX:
        told.append(f"nor in {len(refusals) - CLUSTERS_TOLD_MAX} other clusters")
    return replace(here, message="; ".join(told)) if refusals else None
