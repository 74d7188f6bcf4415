"""Asks the broker whether a job could ever run, before it is accepted.

Others are asked only for what the machine here could not run itself: the broker of its cluster, and
those of other clusters for what that cluster could not run. Where one does not answer in time the
job is accepted, and `why` says later what it waits for.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from iriai.cluster.broker_questions import ClusterReply, declined, problem_in
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.requests.jobs.feasibility import Feasibility
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.instant import Instant
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

CLUSTERS_TOLD_MAX = 3
"""Other clusters of which a refusal says what is wrong there: a few lines for people."""

Judge = Callable[[Want], None]
"""Raises `Refused` where no machine could ever run such a task, by what is known."""


class _Known(NamedTuple):
    until_s: float
    refusal: Declined | None


class FeasibilityRequests:
    """Asks the broker whether a job could ever run."""

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

    async def check(self, want: Want) -> None:
        """Raise `Refused` where no machine could ever run such a task, by what is known."""
        if not self.is_here:
            await self._learn((want,))
        self._judge(self._engine.now, want)

    async def judge(self, wants: Sequence[Want]) -> Judge:
        """Return a function that checks `wants`, after asking the broker about the first."""
        if not self.is_here:
            await self._learn(wants)
        return partial(self._judge, self._engine.now)

    async def waits_for(self, want: Want, *, may_wait: bool) -> tuple[Why, ...]:
        """Return the resources that such a task would wait for now.

        Raises `Refused` if no machine could ever run it, unless it `may_wait` for one.
        """
        reply = await self._inquirer.ask(AskFit(want), Fit)
        fit = reply.answer
        if reply.problem is not None:
            raise reply.problem
        if fit is None:
            broker = self._engine.machine.broker_at
            return (Why("machine-away", "an answer of the broker", reply.missing, broker),)
        refusal = None if may_wait else await self._decision(want, fit)
        if refusal is not None:
            raise problem_in(refusal)
        return fit.waits_for

    # --- within ----------------------------------------------------------------------------------

    async def _learn(self, wants: Sequence[Want]) -> None:
        """Ask the broker about the first of `wants` of which nothing is known."""
        for want in wants[:ASKED_MAX]:
            if self._asks(want, self._engine.now):
                await self._ask(want)

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

    async def _ask(self, want: Want) -> None:
        reply = await self._inquirer.ask(AskFit(want), Fit)
        if reply.missing:
            log.info("a job is accepted without the check: %s", reply.missing)
            self._silent_until_s = self._engine.now.steady_s + SILENT_S
            return
        refusal = None
        if reply.answer is not None:
            refusal = await self._decision(want, reply.answer)
        else:
            log.info("the broker did not answer whether a job could run: %s", reply.problem)
        self._known[want] = _Known(self._engine.now.steady_s + REMEMBERED_S, refusal)
        self._known.move_to_end(want)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)

    async def _decision(self, want: Want, fit: Fit) -> Declined | None:
        """Return the refusal of the own cluster, or of all if its own is not final."""
        if fit.here is None:
            return fit.refusal
        return _nowhere(fit.here, await self._inquirer.clusters.ask(AskFit(want), Fit))

    def _judge(self, now: Instant, want: Want) -> None:
        self.feasibility.check(want)  # where the broker is elsewhere, what is plain here
        known = None if self.is_here else self._known.get(want)
        if known is not None and known.refusal is not None and now.steady_s < known.until_s:
            raise problem_in(known.refusal)


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
