"""The checker: compares what really ran with what was promised and stored.

Each breach is an AssertionError that says which machine and what. The letters are those of
docs/spec/001, section 10.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from math import inf

from iriai.broker.state.preemptible_task import Standing
from iriai.home.job import JobState
from iriai.machine.checks import check_stored
from iriai.machine.cluster_checks import check_cluster
from iriai.machine.core import Machine
from iriai.machine.outbox import Turn
from iriai.model.home_trust import refusal_of
from iriai.model.ids import Account, AttemptId, JobId, TaskId
from iriai.model.instant import Instant
from iriai.model.job import task_count
from iriai.model.reason import Rule
from iriai.model.records import AttemptResult, JobEvent, LedgerRow
from iriai.model.state import EndCause
from iriai.node.metering import HeldClaim
from iriai.policy.accounting.decay_rule import decay_of
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.checkers.owner_checker import OwnerChecker
from iriai.sim.faults.checkers.pool_checker import PoolChecker
from iriai.sim.faults.checkers.proposal_checker import ProposalChecker
from iriai.sim.faults.checkers.queue_checker import QueueChecker
from iriai.sim.faults.checkers.refund_checker import RefundChecker
from iriai.sim.faults.checkers.reservation_checker import ReservationChecker
from iriai.sim.faults.checkers.reservation_limit_checker import ReservationLimitChecker
from iriai.sim.faults.checkers.seat_checker import SeatChecker, check_sums
from iriai.sim.faults.checkers.series_checker import SeriesChecker
from iriai.sim.faults.checkers.suspension_checker import SuspensionChecker
from iriai.sim.faults.checkers.told_jobs import AwaitedJobs, ToldJobs, check_feasible
from iriai.sim.faults.checkers.turn_checker import TurnChecker
from iriai.sim.world.machine_model import SimulatedMachine
from iriai.sim.world.work import ProcessModel
from iriai.sim.world.world import World

TOLD_TURNS = 64
"""A home is asked what it tells of its jobs after every so many turns, since that takes long."""
PROMISE_TOLERANCE_S = 1.5
"""A promise is sent again only when it changes by a second, and messages take a moment."""
USAGE_TOLERANCE_S = 0.1
"""Clocks that differ by minutes let a week's half-life decay differently by less."""
ELAPSED_TOLERANCE_S = 0.01
"""Clocks that drift count a run of a minute otherwise by less."""
CHARGE_TOLERANCE_S = 1e-6
"""The tolerance for rounding."""
TURNS_LATE_COMMITS = 2
"""The node counts other turns from when it decides on them, its launcher from the order on, which
leaves after a commit. Beside that, a slice may be cut short or come late where a clock is known
less well for a time."""
BOOKED_S = 1.0
"""From the offer of nodes until a broker knows that they are booked."""
MOVE_TOLD_S = 3.0
"""Until brokers know when what stands will end, and homes what follows from that."""
BY_ITSELF = (EndCause.COMPLETED, EndCause.FAILED, EndCause.MEMORY_LIMIT)
"""The causes of tasks that end by themselves."""


class Checker:
    """Checks a world after each turn, and at its end."""

    def __init__(self, world: World, *, is_calm: bool = False, calm_from_s: float = inf) -> None:
        """With `is_calm` nothing breaks, so promises must be kept to the second.

        From `calm_from_s` on nothing breaks any more.
        """
        self._world = world
        self._seats = SeatChecker(world, 0.0 if is_calm else calm_from_s)
        self._suspensions = SuspensionChecker(world)
        self._owners = OwnerChecker(world)
        self._refunds = RefundChecker(world)
        self._queues = QueueChecker()
        self._turns = TurnChecker(world, is_calm=is_calm)
        self._pools = PoolChecker()
        self._proposals = ProposalChecker(0.0 if is_calm else calm_from_s)
        self._series = SeriesChecker(calm_from_s)
        self._reservations = ReservationChecker(
            world, is_calm=is_calm, calm_from_s=0.0 if is_calm else calm_from_s
        )
        self._limits = ReservationLimitChecker(world)
        self._is_calm = is_calm
        self._live: dict[TaskId, dict[AttemptId, SimulatedMachine]] = {}
        self._last: dict[TaskId, dict[AttemptId, None]] = {}
        """The seats of the last attempt of each task that have started."""
        self._ended: dict[AttemptId, ProcessModel] = {}
        self._rows: dict[tuple[str, Account], LedgerRow] = {}
        self._cores: dict[str, Machine] = {}
        self._unfit: dict[str, tuple[Machine, dict[AttemptId, None]]] = {}
        """By machine, the core and the failed prologs after its last turn."""
        self._drained_for: dict[AttemptId, None] = {}
        """Attempts whose failed prolog has drained the machine."""
        self._promises: dict[JobId, tuple[tuple[int, int], float, float]] = {}
        """By job, how many tasks wait, and attempts came before; the promised start of the first;
        since when that is promised."""
        self._known_places: dict[tuple[str, int], tuple[bool, int, int]] = {}
        """Whether tasks stand for queues, and their rows, ..."""
        self._moved_s = -MOVE_TOLD_S
        """... and when any of that was last otherwise."""
        self._awaited = defaultdict[str, AwaitedJobs](AwaitedJobs)
        for machine in world.machines.values():
            machine.launcher.on_start = partial(self._started, machine)
            machine.launcher.on_end = partial(self._has_ended, machine)
        world.watchers.append(self._check)

    # --- what really runs ------------------------------------------------------------------------

    def _started(self, machine: SimulatedMachine, process: ProcessModel) -> None:
        """Check (a) and (b) against the processes that run."""
        attempt, now_s = process.attempt, self._world.now_s
        task = attempt.task
        last = self._last.setdefault(task, {})
        assert attempt not in last, f"{attempt} is started again"
        assert all(each.attempt <= attempt.attempt for each in last), (
            f"{attempt} after {list(last)}"
        )
        if any(each.attempt < attempt.attempt for each in last):
            last.clear()
        last[attempt] = None
        self._seats.started(machine, process)
        self._reservations.started(machine, process)
        live = self._live.setdefault(task, {})
        for other, where in live.items():
            if other.attempt != attempt.attempt and where.launcher.runs(other, now_s):
                assert self._is_excused(where, other), (
                    f"{attempt} starts on {machine.plan.name} while {other} runs on "
                    f"{where.plan.name}"
                )
        live[attempt] = machine
        whose = attempt.home, process.spec.user
        words = machine.refusal_of(*whose, machine.clock.at(now_s).wall_s)
        if whose not in machine.let_in:  # which may be over since the claim was granted
            raise AssertionError(f"{attempt} of {whose[1]} on {machine.plan.name}: {words}")
        suspended = machine.core.node.suspended if machine.is_up else {}
        cpus = 0
        for each, p in machine.launcher.running.items():
            # What is to end goes on for its grace, though others have its cpus.
            stood_s = p.frozen_s(now_s) + p.away_s(now_s)
            has_others = stood_s > 0.0 or machine.launcher.takes_turns(each)
            is_ending = has_others and p.is_asked(now_s)
            # What is to be started frozen is frozen by the next order.
            is_frozen_next = each in suspended and (
                suspended[each].is_preempted or _has_order_ahead(machine, suspended[each])
            )
            if p.executes(now_s) and not is_ending and not is_frozen_next:
                cpus += p.spec.resources.cpus
        capacity = machine.plan.capacity
        is_behind = machine.launcher.is_behind
        assert is_behind or cpus <= capacity.cpus, (
            f"{machine.plan.name} runs {cpus} of {capacity.cpus} cpus"
        )

    def _is_excused(self, machine: SimulatedMachine, attempt: AttemptId) -> bool:
        """Return True if the launcher could not end an attempt whose lease is over."""
        launcher = machine.launcher
        is_away = launcher.is_stopped or not launcher.is_up
        return is_away and launcher.running[attempt].lease_end_s <= self._world.now_s

    def _has_ended(self, machine: SimulatedMachine, process: ProcessModel) -> None:
        del self._live[process.attempt.task][process.attempt]
        self._ended[process.attempt] = process
        self._suspensions.ended(process)
        self._refunds.ended(machine, process)

    # --- after each turn -------------------------------------------------------------------------

    def _check(self, machine: SimulatedMachine, turn: Turn, now: Instant) -> None:
        parts = machine.plan.parts
        machines = {name: each for name, each in self._world.machines.items() if each.is_up}
        check_cluster(
            {name: each.core for name, each in machines.items()},
            {name: each.clock.at(self._world.now_s) for name, each in machines.items()},
        )
        self._seats.check(machine, turn, self._live)
        self._suspensions.check(machine, now)
        self._owners.check(machine, now)
        self._refunds.check(machine)
        self._queues.check(machine, now)
        self._turns.check(machine, now)
        self._pools.check(machine)
        self._reservations.check(machine, turn, now)
        if Part.HOME in machine.plan.parts and machine.core.home.reserved:
            self._series.check(machine, turn, now, self._world.now_s)
        self._limits.check(machine, turn, now)
        leads = Part.BROKER in machine.core.parts
        if leads and machine.turns % TOLD_TURNS == 0:
            self._refunds.check_broker(machine, now)
        assert Part.BROKER in parts or not leads, f"{machine.plan.name} has become a broker"
        if Part.NODE in parts:
            self._check_counters(machine)
            self._check_prologs(machine)
        if Part.HOME in parts and self._is_calm:
            self._check_promises(machine)
        if Part.HOME in parts:
            self._awaited[machine.plan.name].check(machine)
            if machine.turns % TOLD_TURNS == 0:
                ToldJobs(machine).check_unfinished()
        if turn.records:
            node = machine.core.node if Part.NODE in parts else None
            home = machine.core.home if Part.HOME in parts else None
            check_stored(node, home, machine.store.load())
            for record in turn.records:
                assert type(record) is not JobEvent or record.story, "an event without a cause"
                self._proposals.recorded(machine, record, self._world.now_s)
        self._proposals.check(self._world.now_s)

    def _check_counters(self, machine: SimulatedMachine) -> None:
        """Check (e): counters never fall within an incarnation."""
        name = machine.plan.name
        if self._cores.get(name) is not machine.core:
            self._cores[name] = machine.core
            self._rows = {key: row for key, row in self._rows.items() if key[0] != name}
        for row in machine.core.node.ledger.rows():
            before = self._rows.get((name, row.account))
            self._rows[name, row.account] = row
            if before is not None and before.epoch_wall_s == row.epoch_wall_s:
                assert row.counter >= before.counter, f"less use of {row.account} on {name}"
                assert row.runs >= before.runs, f"fewer runs of {row.account} on {name}"

    def _check_prologs(self, machine: SimulatedMachine) -> None:
        """Check that a machine with a failed prolog is drained after the turn that reports it."""
        name, failed = machine.plan.name, dict.fromkeys(machine.launcher.unfit)
        core, before = self._unfit.get(name, (machine.core, {}))
        self._unfit[name] = machine.core, failed
        if machine.core.node.drained is not None:
            self._drained_for.update(failed)
        elif core is machine.core:
            told = [attempt for attempt in before if attempt not in self._drained_for]
            assert not told, f"{name} goes on: {told[0]}'s prolog"

    def _check_promises(self, machine: SimulatedMachine) -> None:
        """Check (f) in a calm world: the promise of a waiting job never gets later.

        Apart from users that a machine refuses, which brokers learn when it is promised to them,
        from lower queues, whose places higher ones may take, and from moments at which tasks stand,
        gather cpus to go on, or change rows for their queues (docs/spec/012, section 6; 013,
        section 8); and from what is promised between the offer of nodes and their booking (017,
        section 7). Where reservations come above the queue, they move promises.
        """
        if machine.plan.configuration.reservations.policy == "above":
            return
        home, places, now_s = machine.core.home, self._places(), self._world.now_s
        known = self._known_places
        if any(known.get(task, place) != place for task, place in places.items()):
            self._moved_s = now_s
        self._known_places = places
        if now_s < self._moved_s + MOVE_TOLD_S:
            self._promises.clear()
            return
        for number, job in home.jobs.items():
            if job.spec.queue or self._is_refused(home.name, job.spec.user):
                continue
            key = JobId(home.name, number)
            promised_s, before = job.promised_wall_s, self._promises.pop(key, None)
            if promised_s is None:
                continue
            whose, made_s = (job.ready, _repeated(job)), now_s
            if before is not None and before[0] == whose:  # otherwise it is for another task
                is_put_off = promised_s > before[1] + PROMISE_TOLERANCE_S
                is_new = now_s < before[2] + BOOKED_S and self._reservations.has_offers
                assert not is_put_off or is_new, f"{key} is put off"
                if not is_put_off:
                    made_s = now_s if promised_s < before[1] else before[2]
                    promised_s = min(promised_s, before[1])
            self._promises[key] = (whose, promised_s, made_s)

    def _places(self) -> dict[tuple[str, int], tuple[bool, int, int]]:
        """Return of tasks that may stand whether they do, their rows, and cpus that they gathered.

        By brokers' numbers.
        """
        present = (each for each in self._world.present() if each.is_up)
        leaders = (each for each in present if Part.BROKER in each.core.parts)
        return {
            (each.plan.name, task.order): (
                task.standing is Standing.RUNS,
                task.row,
                sum(seat.gathered_cpus for seat in task.seats.values()),
            )
            for each in leaders
            for task in each.core.broker.state.preemptible.tasks
        }

    def _is_refused(self, home: str, user: str) -> bool:
        """Return whether some machine runs no tasks of a user from a home."""
        return any(
            refusal_of(each.plan.rules, each.trust, home, user, lambda: False)
            for each in self._world.machines.values()
        )

    # --- when all is over ------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """Return the jobs that were accepted, or are at a home, and have not ended."""
        told = [
            str(job)
            for job in self._world.accepted
            if job.number not in self._world.machines[job.home].store.finished
        ]
        kept = [
            str(JobId(machine.plan.name, number))
            for machine in self._world.present()
            if machine.is_up and Part.HOME in machine.plan.parts
            for number in machine.core.home.jobs
        ]
        return [*dict.fromkeys(told + kept), *self._reservations.unfinished()]

    def check_end(self) -> None:
        """Check that ended jobs leave nothing behind and that all results are true."""
        present = self._world.present()
        led = {each.plan.cluster for each in present if Part.BROKER in each.core.parts}
        for machine in present:
            name, parts = machine.plan.name, machine.plan.parts
            assert machine.plan.cluster in led, f"there is no broker in the cluster of {name}"
            assert not machine.launcher.running, (
                f"{name} still runs {list(machine.launcher.running)}"
            )
            if Part.NODE in parts:
                left = [claim.attempt for claim in machine.core.node.claims()]
                assert not left, f"{name} still holds claims for {left}"
                assert not machine.launcher.exits, f"{name} was not told to forget"
            if Part.HOME in parts:
                self._reservations.check_end(machine)
                assert not machine.core.home.jobs, (
                    f"{name} still has {list(machine.core.home.jobs)}"
                )
                self._check_results(machine)
                ToldJobs(machine).check_finished()
                self._awaited[name].check_end(machine)
            if Part.HOME in parts and Part.BROKER in machine.core.parts:
                check_feasible(machine)
            if Part.BROKER in machine.core.parts:
                self._check_idle(machine)
                self._refunds.check_end(machine, machine.clock.at(self._world.now_s))

    def _check_results(self, machine: SimulatedMachine) -> None:
        """Check (c): the stored results of each job are what happened to it."""
        store, name = machine.store, machine.plan.name
        assert len(set(machine.settled)) == len(machine.settled), f"{name} told an end twice"
        completed = Counter[int]()
        check_sums(store)
        wholes = {attempt.seat(0) for attempt in store.seats}
        for attempt, result in (*store.results.items(), *store.seats.items()):
            is_whole = store.results.get(attempt) is result
            if result.cause in BY_ITSELF and not (is_whole and attempt in wholes):
                process = self._ended.get(attempt)
                assert process is not None, f"{attempt} {result.cause}, and never ran"
                assert process.end[0] is result.cause, f"{attempt} {result.cause}: {process.end}"
                self._check_charge(attempt, result.charge_s, process)
                self._check_elapsed(result, process)
            if result.cause is EndCause.COMPLETED and is_whole:
                completed[attempt.number] += 1
        for number, finished in store.finished.items():
            may_be_lost = store.accepted[number].spec.max_restarts is not None
            assert may_be_lost or finished.cause is not EndCause.LOST, f"{name}-{number} is lost"
            if finished.cause is EndCause.COMPLETED:
                total = task_count(store.accepted[number].spec.array)
                done = completed[number]
                assert done == total, f"{name}-{number}: {done} results of {total} tasks"

    def _check_elapsed(self, result: AttemptResult, process: ProcessModel) -> None:
        """Check (m): what counts as its run time is that in which it was not frozen."""
        ran_s = process.ran_s(process.end_s)
        assert abs(result.elapsed_s - ran_s) <= ELAPSED_TOLERANCE_S, (
            f"{result.attempt} ran {ran_s:.3f} s, it is said for {result.elapsed_s:.3f} s"
        )

    def _check_charge(self, attempt: AttemptId, charge_s: float, process: ProcessModel) -> None:
        spec, ran_s = process.spec, process.ran_s(process.end_s)
        part = max(1.0, process.work.cpu_part)  # What is claimed and idles is charged, too.
        whole_s = ran_s * spec.resources.cpus * part * spec.urgency
        tolerance_s = max(CHARGE_TOLERANCE_S, whole_s * 0.02)
        if process.away_s(process.end_s) and ran_s:
            plans = [machine.plan for machine in self._world.machines.values()]
            late_s = TURNS_LATE_COMMITS * max(plan.sync_s for plan in plans)
            late_s += max(plan.configuration.gang.quantum_s for plan in plans)
            tolerance_s += late_s * whole_s / ran_s
        stepped_s = max(each.clock.stepped_s for each in self._world.machines.values())
        # A node that comes back knows the age of its claims by the wall clock alone.
        tolerance_s += stepped_s * spec.resources.cpus * part * spec.urgency
        assert abs(charge_s - whole_s) <= tolerance_s, (
            f"{attempt} was charged {charge_s:.3f} s for {whole_s:.3f} s"
        )

    def _check_idle(self, machine: SimulatedMachine) -> None:
        """Check that a broker is idle and knows the usage of all accounts."""
        state, wall_s = machine.core.broker.state, machine.clock.at(self._world.now_s).wall_s
        assert not state.queues.entries, f"it still knows of {list(state.queues.entries)}"
        assert not state.reserved, f"the broker still keeps {state.reserved}"
        used_s: dict[Account, float] = {}
        for each in self._world.present():
            name = each.plan.name
            view = state.machines.get(name)
            if view is None:
                assert not _is_node_of(each, machine), f"the broker does not know {name}"
                continue
            assert not len(view.calendar), f"the broker takes {name} for busy"
            booked = [str(each.reservation) for each in view.calendar.bookings]
            assert not booked, f"the broker takes {name} for booked: {booked}"
            assert not view.calendar.ahead, f"the broker has tasks wait at {name}"
            why = view.unavailable  # a launcher is tried again later, an owner leaves later
            is_free = why is None or why.rule in (Rule.BACKED_OFF, Rule.OWNER_ACTIVE)
            assert is_free, f"the broker takes {name} for {why}"
            fading = decay_of(each.plan.configuration.order)
            for row in each.core.node.ledger.rows():
                use_s = fading.restored(row).at(wall_s)
                used_s[row.account] = used_s.get(row.account, 0.0) + use_s
        for account, seconds in used_s.items():
            known_s = state.usage.usage_s(account, wall_s)
            left_s = seconds - state.usage.returned_s(account, wall_s)
            assert known_s >= left_s - USAGE_TOLERANCE_S, (
                f"the broker knows of {known_s:.3f} s of {account}, the machines of {left_s:.3f} s"
            )


def _repeated(job: JobState) -> int:
    """Return how many attempts its tasks had before: those go before others that waited."""
    return sum(task.attempt - 1 for task in job.tasks.values())


def _is_node_of(machine: SimulatedMachine, broker: SimulatedMachine) -> bool:
    """Return True if the machine runs tasks that this broker matches.

    A machine that only connects outwards is elected by nobody: where a cluster has no others, each
    of its machines follows itself (spec 008, section 6).
    """
    plan = machine.plan
    follows_itself = plan.outward_only and broker.plan.outward_only
    in_cluster = not plan.broker_at and plan.cluster == broker.plan.cluster and not follows_itself
    return Part.NODE in plan.parts and (in_cluster or plan.broker_at == broker.plan.name)


def _has_order_ahead(machine: SimulatedMachine, held: HeldClaim) -> bool:
    """Return whether the launcher has not received yet what its node ordered last of a claim."""
    last = machine.launcher.freezes.get(held.claim.attempt)
    number = 0 if held.suspension is None else held.suspension.number
    return number > (0 if last is None else last.number)
