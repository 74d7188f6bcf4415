"""Asks the broker whether a job could ever run, before it is accepted.

Others are asked only for what the machine here could not run itself: the broker of its cluster, and
those of other clusters for what that cluster could not run. Where one does not answer in time the
job is accepted, and `why` says later what it waits for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from iriai.cluster.broker_questions import declined, problem_in
from iriai.cluster.fit_answers import FitAnswers, refusal_of_all
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.startup.settings import DaemonSettings
from iriai.machine.feasibility import Feasibility
from iriai.model.instant import Instant
from iriai.model.pool_room import PoolRoom
from iriai.protocol.messages.scheduling import Want
from iriai.wire.inquiries import AskFit, Declined, Fit
from iriai.wire.requests import Why

log = logging.getLogger(__name__)

ASKED_MAX = 16
"""Different questions for one request of a client: alterations of many jobs. More are not asked."""

Judge = Callable[[Want], None]
"""Raises `Refused` where no machine could ever run such a task, by what is known."""


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
        self._feasibility = feasibility
        self._answers = FitAnswers()
        inquirer.answerers[AskFit] = self._fit

    def _fit(self, question: AskFit, _now: Instant) -> Fit:
        """Answer another machine as the broker."""
        lacking = self._feasibility.lacking(question.want)
        waits_for = tuple(Why(each.rule, each.needed, each.had, each.machine) for each in lacking)
        verdict = self._feasibility.verdict(question.want)
        refusal = None if verdict.refusal is None else declined(verdict.refusal)
        pools = self._feasibility.pools_for(question.want)
        if verdict.is_final:
            return Fit(refusal, waits_for, pools=pools)
        return Fit(None, waits_for, refusal, pools)

    async def pools_for(self, want: Want) -> tuple[PoolRoom, ...]:
        """Return the pools in which such a task could run; without an answer, that of this machine.

        Empty: this machine has none.
        """
        if not self._engine.machine.decides_alone:
            reply = await self._inquirer.ask(AskFit(want), Fit)
            if reply.answer is not None and reply.answer.pools:
                return reply.answer.pools
            log.info("a job takes the limits of this machine's pool: %s", reply.missing)
        return self._feasibility.pools_for(want)

    async def check(self, want: Want) -> None:
        """Raise `Refused` where no machine could ever run such a task, by what is known."""
        (await self.judge((want,)))(want)

    async def judge(self, wants: Sequence[Want]) -> Judge:
        """Return a function that checks `wants`, after asking the broker about the first."""
        if self._engine.machine.decides_alone:
            return self._feasibility.check
        for want in wants[:ASKED_MAX]:
            is_plain = self._feasibility.runs_here(want)
            if not is_plain and self._answers.asks(want, self._engine.now):
                await self._ask(want)
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

    async def _ask(self, want: Want) -> None:
        reply = await self._inquirer.ask(AskFit(want), Fit)
        if reply.missing:
            log.info("a job is accepted without the check: %s", reply.missing)
            self._answers.silent(self._engine.now)
            return
        refusal = None
        if reply.answer is not None:
            refusal = await self._decision(want, reply.answer)
        else:
            log.info("the broker did not answer whether a job could run: %s", reply.problem)
        self._answers.learn(want, refusal, self._engine.now)

    async def _decision(self, want: Want, fit: Fit) -> Declined | None:
        """Return the refusal of the own cluster, or of all if its own is not final."""
        if fit.here is None:
            return fit.refusal
        replies = await self._inquirer.ask_clusters(AskFit(want), Fit)
        for each in replies:
            if each.answer is None:
                log.info("cluster %s was not asked about a job: %s", each.cluster, each.missing)
        return refusal_of_all(fit.here, replies)

    def _judge(self, now: Instant, want: Want) -> None:
        self._feasibility.check(want)  # where the broker is elsewhere, what is plain here
        refusal = self._answers.refusal(want, now)
        if refusal is not None:
            raise problem_in(refusal)
