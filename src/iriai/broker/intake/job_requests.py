"""Wants of homes, as a broker takes them in."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.broker.federation.federation import Federation
from iriai.broker.intake.sessions import Sessions
from iriai.broker.scheduling.plan_policy import PlanDriver
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.protocol.messages.scheduling import Want, Wants, Withdraw


class JobRequests:
    """Lives as long as the broker. Each method says whether a pass may come to something else."""

    def __init__(
        self,
        state: BrokerState,
        attendance: Sessions,
        abroad: Federation,
        planning: PlanDriver | None,
    ) -> None:
        self._state = state
        self._attendance = attendance
        self._abroad = abroad
        self._planning = planning

    def put(self, want: Want, now_s: float) -> bool:
        """A home says how many tasks of a job wait."""
        home = want.job.home
        self._attendance.contacted(home, now_s)
        self._attendance.wanted(home, want.job.number, want.stamp)
        known = self._state.queues.entries.get(want.job)
        if known is not None and 0 < want.stamp <= known.want.stamp:
            return False
        account = self._state.counts_for(want.account)
        if account != want.account:
            want = replace(want, account=account, group=want.account.group)
        count = self._abroad.waits_here(want, known.count if known is not None else 0)
        if count != want.count:
            want = replace(want, count=count, front=min(want.front, count))
        if not count:
            return self._forget_queued(want.job)
        self._state.put(want, now_s)
        if want.promised_in_s is not None:
            self._restore_promise(want, now_s + want.promised_in_s)
        return True

    def _restore_promise(self, want: Want, start_s: float) -> None:
        """An earlier broker promised it a start."""
        if self._planning is not None:
            self._planning.restore(want.job, want.promised_machine, start_s)
        else:
            self._state.heads.restore(want, want.promised_machine, start_s)

    def withdraw(self, withdraw: Withdraw, now_s: float) -> bool:
        """Nothing of a job waits any more, unless a later want came before this."""
        job = withdraw.job
        self._attendance.contacted(job.home, now_s)
        self._attendance.wanted(job.home, job.number, withdraw.stamp)
        known = self._state.queues.entries.get(job)
        if known is not None and 0 < withdraw.stamp < known.want.stamp:
            return False
        return self._forget(job)

    def all_told(self, wants: Wants, now_s: float) -> bool:
        """A home has told all that it wants."""
        self._attendance.contacted(wants.machine, now_s)
        self._attendance.resent_all(wants.machine)
        return True

    def forget_home(self, home: str) -> bool:
        """A home cannot be reached: it will tell its wants again."""
        has_changed = False
        for job in [job for job in self._state.queues.entries if job.home == home]:
            has_changed |= self._forget(job)
        self._abroad.forget_home(home)
        return has_changed

    def _forget(self, job: JobId) -> bool:
        self._abroad.forget(job)
        return self._forget_queued(job)

    def _forget_queued(self, job: JobId) -> bool:
        if self._planning is not None:
            self._planning.promised.pop(job, None)
        return self._state.remove(job)
