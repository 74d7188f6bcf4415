"""Checks what is returned for what owners destroyed: (r) of docs/spec/016, section 7."""

from __future__ import annotations

from iriai.machine.core import Machine
from iriai.model.claim import Claim
from iriai.model.ids import Account, AttemptId
from iriai.model.instant import Instant
from iriai.model.records import DAY_S, Refunds
from iriai.model.state import EndCause
from iriai.policy.accounting.refunds import merged, plus
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.work import ProcessModel
from iriai.sim.world.world import World

ROUNDING = 1e-6
"""Relative."""
WEIGHS = 0.99
"""What some minutes leave of a charge, with a half-life of a week."""
CLOCKS_S = 3600.0
"""By how much clocks differ at most."""
CHARGED_S = 1.0
"""By how much a clock that drifts, or another cycle of turns, charges a task differently."""


class RefundChecker:
    """Knows what was really evicted, and compares it with what nodes and brokers return."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: dict[AttemptId, Claim] = {}
        """The claims on machines with owners."""
        self._evicted_s: dict[tuple[str, Account], float] = {}
        """The work of attempts that were evicted, as it was charged, by machine."""
        self._cores: dict[str, Machine] = {}
        self._refunds: dict[tuple[str, Account], Refunds] = {}

    def ended(self, machine: SimulatedMachine, process: ProcessModel) -> None:
        """Note what a process had done that was evicted."""
        claim = self._claims.get(process.attempt)
        cause, exit_code, _ = process.end
        is_saved = exit_code is not None and exit_code == process.spec.checkpoint_exit
        if claim is not None and cause is EndCause.EVICTED and not is_saved:
            lasted_s = process.end_s - process.started_s - process.frozen_s(process.end_s)
            part = max(1.0, process.work.cpu_part)
            done_s = (lasted_s + CHARGED_S) * claim.resources.cpus * part * claim.urgency
            key = machine.plan.name, claim.account
            self._evicted_s[key] = self._evicted_s.get(key, 0.0) + done_s

    def check(self, machine: SimulatedMachine) -> None:
        """Check a machine after a turn."""
        if Part.NODE not in machine.plan.parts:
            return
        name, node = machine.plan.name, machine.core.node
        if node.owner is None:
            assert not any(row.refunds for row in node.ledger.rows()), f"{name} has no owner"
            return
        if self._cores.get(name) is not machine.core:
            self._cores[name] = machine.core
            known = self._refunds.items()
            self._refunds = {key: refunds for key, refunds in known if key[0] != name}
        returned_s: dict[Account, float] = {}
        for row in node.ledger.rows():
            key = name, row.account
            before = self._refunds.get(key, ())
            assert merged(before, row.refunds) == row.refunds, f"less returned by {key}"
            self._refunds[key] = row.refunds
            total_s = returned_s[row.account] = sum(each.charge_s for each in row.refunds)
            destroyed_s = self._evicted_s.get(key, 0.0)
            assert total_s <= destroyed_s * (1.0 + ROUNDING), (
                f"{name} returned {total_s:.3f} s of {row.account}, who lost {destroyed_s:.3f} s"
            )
        self._check_claims(machine, returned_s)

    def _check_claims(self, machine: SimulatedMachine, returned_s: dict[Account, float]) -> None:
        """Check that what was ended for the owner is returned, as far as claims are remembered."""
        node = machine.core.node
        due_in_all_s: dict[Account, float] = {}
        for claim in node.claims():
            self._claims[claim.attempt] = claim
            held = node.held(claim.attempt)
            if held.end is None or held.end.result.cause is not EndCause.EVICTED:
                continue
            result = held.end.result
            has_saved = result.exit_code is not None and result.exit_code == claim.checkpoint_exit
            due_s = result.charge_s if claim.is_for_owner and not has_saved else 0.0
            assert result.returned_s == due_s, f"{claim.attempt}: its home hears of another sum"
            assert claim.refunded_s == due_s, (
                f"{claim.attempt} lost {due_s:.3f} s, {claim.refunded_s:.3f} s were returned"
            )
            all_s = due_in_all_s[claim.account] = due_in_all_s.get(claim.account, 0.0) + due_s
            assert all_s <= returned_s.get(claim.account, 0.0) * (1.0 + ROUNDING), (
                f"{claim.attempt}: {due_s:.3f} s were not counted"
            )

    def check_broker(self, machine: SimulatedMachine, now: Instant) -> None:
        """Check that a broker returns to no account more than the bound of each day."""
        state = machine.core.broker.state
        most_s = state.settings.configuration.order.refund_max_s
        first_s, last_s = now.wall_s - self._world.now_s - CLOCKS_S, now.wall_s + CLOCKS_S
        days = 1 + int(last_s // DAY_S) - int(first_s // DAY_S)
        for account in state.usage:
            left_s = state.usage.returned_s(account, now.wall_s)
            bound_s = most_s * days * (1.0 + ROUNDING)
            assert left_s <= bound_s, f"{account} got back {left_s:.3f} s in {days} days"

    def check_end(self, machine: SimulatedMachine, now: Instant) -> None:
        """Check that a broker that knows all machines returns what these say, up to its bound."""
        self.check_broker(machine, now)
        state = machine.core.broker.state
        most_s = state.settings.configuration.order.refund_max_s
        sums: dict[Account, Refunds] = {}
        for each in self._world.present():
            if each.plan.name in state.machines:
                for row in each.core.node.ledger.rows():
                    account = state.counts_for(row.account)
                    sums[account] = plus(sums.get(account, ()), row.refunds)
        for account, refunds in sums.items():
            due_s = sum(min(most_s, each.charge_s) for each in refunds) * WEIGHS
            left_s = state.usage.returned_s(account, now.wall_s)
            assert left_s >= due_s, f"{account} got back {left_s:.3f} s of {due_s:.3f} s"
