"""The broker core: which machines are free, which tasks wait, and who starts next, by policy.

In: reports of nodes, requests of homes. Out: matches and promises to homes. docs/spec/002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from iriai.broker.health.failure_attribution import FailureAttribution
from iriai.broker.intake.reports import ClaimedUse, JobRequests, NodeReports
from iriai.broker.intake.sessions import Sessions
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.scheduling.cycles import cycles
from iriai.broker.scheduling.explain import explain, never_matching, never_runs
from iriai.broker.scheduling.fair_shares import AccountShare, account_shares
from iriai.broker.scheduling.pending_matches import PendingMatches, Prefetcher
from iriai.broker.scheduling.resumptions import next_vacation_s
from iriai.broker.scheduling.scheduling_pass import PassResult, SchedulingPass
from iriai.broker.scheduling.start_estimates import estimated_starts
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.other_clusters import Federate, OtherClusters
from iriai.broker.state.state import BrokerSettings, BrokerState
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.reason import Reason
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.accounting.offpeak import OffpeakPublisher, OffpeakRule
from iriai.policy.policy_error import PolicyError
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages import scheduling as said
from iriai.protocol.messages.candidates import BrokerCandidate, ClusterPeer
from iriai.protocol.messages.effects import Effect, LinkDown, LinkUp, Part, Send, Timer, Wake
from iriai.protocol.messages.proposals import Proposed
from iriai.protocol.messages.reservations import NodesOffered, SeekNodes

if TYPE_CHECKING:
    from iriai.broker.scheduling.booking_offers import BookingOffers
    from iriai.broker.scheduling.plan_policy import PlanDriver


class SchedulingCycle:
    """Decides when a policy pass runs, and for how long. Times are those of the steady clock."""

    def __init__(self, state: BrokerState, prefetcher: Prefetcher, rng: Random) -> None:
        self._state = state
        self._prefetcher = prefetcher
        self._decision_rng = DecisionRng(rng)
        self.plan_driver: PlanDriver | None = None
        """Plans in the place of passes; None where passes decide."""
        if state.settings.is_planned:
            from iriai.broker.scheduling.plan_policy import planning_of

            self.plan_driver = planning_of(state)
        self._unfinished: SchedulingPass | None = None
        """The pass that stopped before its end, to continue in a later turn."""
        self._turn_s = 0.0
        self._work = 0
        """The work of the passes of that moment, as `turn_work_max` counts; `woken` resets it."""

    @property
    def is_unfinished(self) -> bool:
        """Return whether a pass stopped before its end; it continues in the next turn."""
        return self._unfinished is not None

    def woken(self) -> None:
        """Allow passes a whole turn again: messages that had arrived were handled meanwhile."""
        self._work = 0

    def run(self, now: Instant, *, has_changed: bool) -> list[PassResult]:
        """Continue the unfinished pass, or begin one if anything changed."""
        planned = [] if self.plan_driver is None else self._planned(self.plan_driver, now)
        if self.plan_driver is not None and not self.plan_driver.is_paused:
            return planned
        return [*planned, *self._built_in(now, has_changed=has_changed or bool(planned))]

    def _planned(self, driver: PlanDriver, now: Instant) -> list[PassResult]:
        """Ask the policy, unless it pauses; nothing is left of the built-in order then."""
        if driver.is_paused:
            if not driver.may_resume(now.steady_s):
                return []
            self._unfinished = None
            self._state.placement.end()
        return [driver.run(self._decision_rng, now)]

    def _built_in(self, now: Instant, *, has_changed: bool) -> list[PassResult]:
        if has_changed:
            self._unfinished = None
        if not self._state.may_start_something:
            self._unfinished = None  # its tasks were withdrawn, or all have started
            self._state.placement.end()
            return self._prefetch(now)
        outcome = self._continue_pass(now)
        return [outcome] if self.is_unfinished else [outcome, *self._prefetch(now)]

    def _continue_pass(self, now: Instant) -> PassResult:
        """Run a pass as far as the work of this turn permits."""
        state = self._state
        if now.steady_s != self._turn_s:
            self._turn_s, self._work = now.steady_s, 0
        work = state.placement.work
        current = self._unfinished or SchedulingPass(state, self._decision_rng, now)
        outcome = current.run(state.settings.turn_work_max - self._work)
        self._work += state.placement.work - work
        self._unfinished = None if current.is_over else current
        return outcome

    def _prefetch(self, now: Instant) -> list[PassResult]:
        """Choose next tasks for machines where short ones run; nothing else can start now."""
        return [self._prefetcher.run(self._decision_rng, now)] if self._prefetcher.is_due else []


MINUTE_S = 60.0
"""The resolution of attributes that give the time."""
NEWS_S = 0.1
"""Until a pass looks again at what the turns of gangs have changed after the last."""
BrokerEvent = said.ToBroker | said.BetweenClusters | Wake | LinkDown | LinkUp


class Broker:
    """The broker core: matches requests with machines."""

    def __init__(
        self,
        settings: BrokerSettings,
        rng: Random,
        machine: str = "",
        federate: Federate = OtherClusters,
    ) -> None:
        """`machine` is the broker's own; its home and node get no receipts.

        `federate` makes its exchange with other clusters.
        """
        order = settings.configuration.order
        decay, rule = decay_of(order), ChargeRule.of(order)
        usage = UsageAccounts(decay, rule, order.even, order.refund_max_s)
        self.state = BrokerState(settings, usage)
        self.sessions = Sessions(machine)
        self.federation = federate(machine, self.state, rng)
        prefetcher = Prefetcher(self.state, machine)
        self._cycle = SchedulingCycle(self.state, prefetcher, rng)
        self.offpeak = OffpeakPublisher(OffpeakRule.named(order.offpeak))
        self._pending = PendingMatches(machine, self.state, self.federation)
        self._failures = FailureAttribution(self.state)
        self._reports = NodeReports(
            self.state,
            self.sessions,
            self.offpeak,
            self._pending,
            self._failures,
            prefetcher,
            ClaimedUse(machine, decay, rule),
        )
        self._requests = JobRequests(
            self.state, self.sessions, self.federation, self._cycle.plan_driver
        )
        self._sends: list[Effect] = []
        self._explain_requests: dict[JobId, None] = {}
        """Jobs whose homes asked why they wait."""
        self._offers: BookingOffers | None = None
        """None: no home has sought nodes for a reservation."""
        self.clock_of: Callable[[str], Estimate | None] = lambda _: None
        """Returns the wall clock of a machine minus the own one; None: it is not known."""
        self._must_pass = False
        self._is_idle = False
        """Whether nothing has changed since the last turn ended; what falls due has an alarm."""
        self._alarm = Timer(Part.BROKER)
        self._handlers: dict[type, Callable[[Any, Instant], bool | None]] = {
            said.Idle: self._reports.receive,
            said.Counted: self._reports.counted,
            said.Want: self._requests.put,
            said.Wants: self._requests.all_resent,
            said.Withdraw: self._requests.withdraw,
            said.Explain: self._explain,
            SeekNodes: self._seek,
            said.Decline: self._pending.decline,
            Proposed: self._proposed,
            said.Summary: self.federation.receive,
            said.Forward: self.federation.receive,
            said.Returned: self.federation.receive,
            Wake: self._wake,
            LinkDown: self._link_down,
        }
        """Each returns whether a pass may come to something else now."""

    @property
    def has_queue(self) -> bool:
        """Return whether a task waits here."""
        return bool(self.state.queues.entries)

    def begin(self, peers: Iterable[BrokerCandidate], term: float, now: Instant) -> None:
        """Begin a term: `peers` are online, and will report what runs, is free and waits there."""
        self._is_idle = False
        self.sessions.term = term
        self.sessions.begin(peers, now.steady_s)
        if self._cycle.plan_driver is not None:
            self._cycle.plan_driver.term = term
        self._must_pass = True

    def configured(self, configuration: Configuration) -> None:
        """Take a configuration with other queues than before: some may start tasks, or none."""
        self.state.configured(configuration)
        for view in self.state.machines.values():  # what runs in which queue matters now
            known = (view.incarnation, view.version)
            self.sessions.reported(view.name, known, is_lacking=True)
        self._is_idle = False
        self._must_pass = True

    def peers_changed(self, cluster: str, peers: Iterable[ClusterPeer]) -> None:
        """Note the own cluster's name and all clusters of the site."""
        self._is_idle = False
        self.federation.peers_changed(cluster, peers)
        if self._cycle.plan_driver is not None:
            self._cycle.plan_driver.machines.cluster = cluster

    def take(self, event: BrokerEvent, now: Instant) -> None:
        """Handle one message; decisions are made in `end_turn`."""
        self._is_idle = False
        if not isinstance(event, LinkUp) and self._handlers[type(event)](event, now):
            self._must_pass = True  # at LinkUp nothing is known: the machine will report whole

    def end_turn(self, now: Instant) -> list[Effect]:
        """Run a policy pass, if anything changed, after the events of one instant."""
        if self._is_idle:
            return []
        self._is_idle = True
        sessions, now_s = self.sessions, now.steady_s
        offpeak = self.offpeak
        effects: list[Effect] = [
            Send(machine, Part.NODE, said.Quiet(offpeak.is_offpeak))
            for machine in offpeak.publish(self.state.machines, now_s)
        ]
        if sessions.owes_receipts:
            effects += sessions.receipts()
        for sends in (self._reports.effects, self._sends):
            effects += sends
            sends.clear()
        queues = self.state.queues
        if queues.lower and queues.age(now_s):
            self._must_pass = True
        preemptible = self.state.preemptible
        if preemptible.rows.unsettled:
            preemptible.rows.hold()
        if preemptible.modes and (preemptible.age(now_s) or self.state.has_news_of_tasks):
            self._must_pass = True
        is_complete, has_passed = sessions.is_complete(now_s), False
        if not is_complete:
            self.state.heads.withdraw_absent(self.state.queues.entries)
            effects += self._alarm.by(sessions.until_s)
        elif self._must_pass or self._cycle.is_unfinished or self.federation.must_pass:
            effects += self._pass(now)
            has_passed = True
        if preemptible.rows.unsettled:
            preemptible.settle_machines()
        if has_passed and preemptible.standing and self.state.has_news_of_tasks:
            effects += self._alarm.by(now_s + NEWS_S)
        if preemptible.to_tell and not self._cycle.is_unfinished:
            effects += cycles(self.state)
        if self._offers is not None and is_complete and not self._cycle.is_unfinished:
            awaited_s = sessions.awaited_until_s(now_s)
            effects += self._offers.answers(now, is_whole=awaited_s is None)
            due_s = now_s if awaited_s is None else awaited_s
            effects += self._alarm.by(due_s) if self._offers.are_due else []
        effects += self._federate(now, is_complete=is_complete, has_passed=has_passed)
        for job in self._explain_requests:
            reasons = tuple(self.explain(job, now))
            effects.append(Send(job.home, Part.HOME, said.Explained(job, reasons)))
        self._explain_requests.clear()
        for at_s in self._due_s(now):
            effects += self._alarm.by(at_s)
        return effects

    def _due_s(self, now: Instant) -> Iterator[float]:
        """Yield the times at which something is to be looked at again, though nothing is told."""
        state, now_s = self.state, now.steady_s
        matches = state.matching.matches
        if matches is not None and matches.follows_clock:
            yield now_s + MINUTE_S - now.wall_s % MINUTE_S
        driver = self._cycle.plan_driver
        wake_s = None if driver is None else driver.wake_s
        if wake_s is not None and wake_s > now_s:
            yield wake_s
        if state.suspended.claims and (vacate_s := next_vacation_s(state, now_s)) < inf:
            yield vacate_s
        if state.suspended.refused_s and (again_s := state.suspended.next_return_s(now_s)) < inf:
            yield again_s
        if state.queues.lower and (rise_s := state.queues.ageing.next_s) < inf:
            yield rise_s
        if state.preemptible.tasks and (change_s := state.preemptible.next_s) < inf:
            yield change_s
        for at_s in (self.offpeak.next_s, self.sessions.silent_s, state.exclusions.next_s):
            if at_s is not None:
                yield at_s

    def _federate(self, now: Instant, *, is_complete: bool, has_passed: bool) -> list[Effect]:
        """Return the messages to other clusters' brokers, once no more tasks can start here."""
        federation = self.federation
        is_calm = is_complete and not self._cycle.is_unfinished
        effects = federation.end_turn(now, is_calm=is_calm, has_passed=has_passed)
        next_s = now.steady_s if federation.must_pass else federation.next_s
        if next_s < inf and (is_calm or next_s > now.steady_s):
            effects += self._alarm.by(next_s)
        return effects

    def _pass(self, now: Instant) -> list[Effect]:
        """Run the passes that are due, and set the alarms for what must be reviewed after them."""
        has_changed = self._must_pass or self.federation.must_pass
        self._must_pass = self.federation.must_pass = False
        effects: list[Effect] = []
        for outcome in self._cycle.run(now, has_changed=has_changed):
            if self.state.preemptible.to_tell:
                effects += cycles(self.state)  # before the matches that need what they free
            effects += self._pending.announce(outcome)
        if self._cycle.plan_driver is not None:
            effects += self._cycle.plan_driver.drain_effects()
        if self._cycle.is_unfinished:
            effects += self._alarm.by(now.steady_s)
        review_in_s = self._pending.review_in_s
        if review_in_s is not None:
            effects += self._alarm.by(now.steady_s + review_in_s)
        for until_s in self._failures.until_s():
            effects += self._alarm.by(until_s)
        return effects

    def explain(self, job: JobId, now: Instant) -> list[Reason]:
        """Return why a job's first waiting task has not started; the main reason first."""
        new = self.sessions.reason(now.steady_s)
        if new is not None:
            return [new]
        elsewhere = self.federation.explain(job, now.steady_s)
        if elsewhere and job not in self.state.queues.entries:
            return elsewhere
        reasons = explain(self.state, job, now)
        if self._cycle.plan_driver is not None:
            reasons = self._cycle.plan_driver.explain(job, reasons, now)
        return reasons + elsewhere

    def never_runs(self, want: said.Want) -> list[Reason]:
        """Return what no machine of this cluster will ever meet of such a job, by machine.

        Empty: one may.
        """
        is_asked = want.requirements or self.state.matching.key(want) is not None
        return never_runs(self.state, want) if is_asked else []

    def never_matching(self, want: said.Want) -> frozenset[str]:
        """Return the machines that could hold a rank of such a job, and will never match."""
        return never_matching(self.state, want)

    def failing_on(self, machine: str) -> list[str]:
        """Return, in words, the users whose tasks fail at once there and not elsewhere."""
        return self._failures.failing_on(machine)

    def estimated_starts(self, now: Instant) -> dict[JobId, float]:
        """Return seconds until each waiting job may start: an estimate (`start_estimates`)."""
        return estimated_starts(self.state, now)

    def shares(self, now: Instant) -> list[AccountShare]:
        """Return the standing of every account, and its chance to be drawn next."""
        return account_shares(self.state, now)

    def has_settled(self, now_s: float) -> bool:
        """Return whether all that could start now has, as far as it knows."""
        must_pass = self._must_pass or self.federation.must_pass
        is_known = self.sessions.is_complete(now_s) and not must_pass
        return is_known and not self._cycle.is_unfinished and self._is_idle

    @property
    def has_own_policy(self) -> bool:
        """Return whether a policy of one's own decides, which may pass over levels of queues."""
        return self.state.settings.plan is not None

    @property
    def policy_mistake(self) -> PolicyError | None:
        """Return the last mistake of a policy of one's own, until it has planned without one."""
        driver = self._cycle.plan_driver
        return None if driver is None else driver.mistake

    def check(self) -> None:
        """Raise where an invariant of this part is broken."""
        self.state.check()
        self._pending.check()

    # --- messages --------------------------------------------------------------------------------

    def _explain(self, explain: said.Explain, now: Instant) -> None:
        self._explain_requests[explain.job] = None  # told after the pass of this turn

    def _proposed(self, answer: Proposed, now: Instant) -> bool:
        self.sessions.contacted(answer.job.home, now.steady_s)
        driver = self._cycle.plan_driver
        return driver is not None and driver.answered(answer, now)

    def offer(self, seek: SeekNodes, now: Instant) -> NodesOffered:
        """Return which machines could take a reservation now; nothing is kept of it."""
        return self._booking_offers().look(seek, now)

    def _booking_offers(self) -> BookingOffers:
        if self._offers is None:
            from iriai.broker.scheduling.booking_offers import BookingOffers

            driver = self._cycle.plan_driver
            planned = None if driver is None else driver.kept
            self._offers = BookingOffers(self.state, planned, self._clock_of)
        return self._offers

    def _clock_of(self, machine: str) -> Estimate | None:
        return self.clock_of(machine)

    def _seek(self, seek: SeekNodes, now: Instant) -> None:
        self.sessions.contacted(seek.reservation.home, now.steady_s)
        self._booking_offers().take(seek)

    def _link_down(self, event: LinkDown, now: Instant) -> None:
        self._machine_away(event.machine, now)

    def _machine_away(self, machine: str, now: Instant) -> None:
        """Start nothing there until the machine has sent a whole report; running tasks go on.

        Nor start tasks of its home, which will send its requests again.
        """
        self.offpeak.away(machine)
        view = self.state.machines.get(machine)
        if view is not None and not view.is_away:
            view.is_away = True
            self.state.availability_changed(view)
            self._must_pass = True
            if view.is_forgotten:
                self._drop(view, now)
        self._must_pass |= self._requests.forget_home(machine)
        self._pending.drop_home(machine)
        if self._offers is not None:
            self._offers.drop_home(machine)

    def forget_machine(self, machine: str, now: Instant) -> None:
        """Drop a machine; it is new if it reports again. Tasks that were matched there wait again.

        Raises:
            Refused: the machine is online.
        """
        view = self.state.machines.get(machine)
        if view is None:
            return
        if not view.is_away:
            raise Refused(
                "not-away",
                f"{machine} is online",
                "stop it first: 'iriai down --kill' with its --state; 'iriai drain' only keeps "
                "it from starting tasks",
            )
        self._drop(view, now)

    def member_forgotten(self, machine: str, now: Instant) -> None:
        """Drop a machine that the directory forgot, or mark it to be dropped once it is away."""
        self._is_idle = False
        view = self.state.machines.get(machine)
        if view is not None and view.is_away:
            self._drop(view, now)
        elif view is not None:
            view.is_forgotten = True

    def learned(self, machine: str, rows: Iterable[LedgerRow], now: Instant) -> None:
        """Take a machine's ledger rows from the directory."""
        self._is_idle = False
        self._reports.learned(machine, rows, now)

    def usage_forgotten(self, machine: str) -> None:
        """Drop a machine's ledger rows, which are too old to count."""
        self._is_idle = False
        self._reports.forget_usage(machine)

    def _drop(self, view: MachineView, now: Instant) -> None:
        self._is_idle = False
        self._pending.give_up(view)
        self.state.drop_machine(view, now.steady_s)
        self.sessions.forget(view.name)
        self._failures.forget(view.name)
        self._must_pass = True

    def _wake(self, wake: Wake, now: Instant) -> None:
        self._alarm.rang()
        self._cycle.woken()
        self._must_pass |= not self._cycle.is_unfinished
        for machine in self.sessions.silent(now.steady_s):
            self._machine_away(machine, now)
        self.state.exclusions.expire(now.steady_s)
        has_freed, sends = self._pending.review(now.steady_s)
        self._sends += sends
        self._must_pass |= has_freed | self._failures.review(now.steady_s)
