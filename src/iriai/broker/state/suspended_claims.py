"""Claims that were ever suspended, as their machines reported them (docs/spec/012, section 6)."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.model.ids import AttemptId
from iriai.model.resources import NOTHING, Resources
from iriai.protocol.messages.scheduling import Running

AGAIN_S = 1.0
"""The pause before a claim that took none of its cpus is given some again."""


def used_now(running: Running) -> Resources:
    """Return what a claim is charged for now (docs/spec/012, section 5).

    While its user alone keeps it from running that is what it keeps, for any other reason nothing.
    """
    suspended = running.suspended
    if suspended is None or not (suspended.stands or running.is_preempted):
        return running.resources
    return running.kept.with_cpus(0) if suspended.is_by_user else NOTHING


class KnownSuspension(NamedTuple):
    """A claim, and the machine that has it."""

    view: MachineView
    running: Running


class SuspendedClaims:
    """By seat; those that run again stay known until they end."""

    def __init__(self) -> None:
        self.claims: dict[ClaimKey, KnownSuspension] = {}
        self.resuming: dict[AttemptId, None] = {}
        """Those that wait for their cpus."""
        self.returned: dict[AttemptId, KnownSuspension] = {}
        """Those that were given cpus back and have not been reported since, as they were before."""
        self.refused_s: dict[AttemptId, float] = {}
        """When each took none of the cpus that it was given: its machine had none, or cannot."""
        self.vacated_s: dict[AttemptId, float] = {}
        """When each was asked for what it keeps, on the steady clock."""
        self._awaited: dict[str, int] = {}
        """How many wait for cpus, by machine."""

    def is_awaited_on(self, machine: str) -> bool:
        """Return whether a claim waits there for its cpus."""
        return machine in self._awaited

    def put(self, view: MachineView, running: Running) -> None:
        """Add or replace a claim."""
        attempt, suspended = running.attempt, running.suspended
        self._stop_waiting(attempt)
        self.claims[attempt] = KnownSuspension(view, running)
        if suspended is not None and suspended.is_resuming:
            self.resuming[attempt] = None
            self._awaited[view.name] = self._awaited.get(view.name, 0) + 1

    def drop(self, key: ClaimKey) -> None:
        """Forget a claim that is over, if it was ever suspended."""
        if key in self.claims:
            self._stop_waiting(key)
            attempt = self.claims.pop(key).running.attempt
            self.vacated_s.pop(attempt, None)
            self.refused_s.pop(attempt, None)
            self.returned.pop(attempt, None)

    def reported(self, running: Running, now_s: float) -> None:
        """Note what a machine says of a claim that was given cpus."""
        known, now = self.returned.pop(running.attempt, None), running.suspended
        before = None if known is None else known.running.suspended
        if now is not None and before is not None and now.freed_cpus >= before.freed_cpus > 0:
            self.refused_s[running.attempt] = now_s

    def may_return(self, attempt: AttemptId, now_s: float) -> bool:
        """Return whether it may be given cpus: not so soon after it took none."""
        return now_s >= self.refused_s.get(attempt, -inf) + AGAIN_S

    def next_return_s(self, now_s: float) -> float:
        """Return when the next may that has taken none; infinite: none has."""
        moments = (
            self.refused_s[each] + AGAIN_S for each in self.resuming if each in self.refused_s
        )
        return min((at_s for at_s in moments if at_s > now_s), default=inf)

    def kept_by_users(self) -> list[KnownSuspension]:
        """Return those that their users alone keep from running."""
        return [
            each
            for each in self.claims.values()
            if each.running.suspended is not None and each.running.suspended.is_by_user
        ]

    def _stop_waiting(self, key: ClaimKey) -> None:
        known = self.claims.get(key)
        if known is None or known.running.attempt not in self.resuming:
            return
        del self.resuming[known.running.attempt]
        name = known.view.name
        self._awaited[name] -= 1
        if not self._awaited[name]:
            del self._awaited[name]
