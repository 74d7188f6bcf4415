"""The parts of one machine as one object: a turn handles events and returns effects.

Messages between its own parts are delivered at once, within the turn: they share the machine's
fate, so none of them needs to be durable before another part acts on it. Effects that leave the
turn (`Turn.outward`), including messages to other machines, must wait until the turn's records are
durable; the driver is responsible for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import NoReturn

from iriai.broker.core import Broker
from iriai.config.reader import Configuration
from iriai.home.core import Home
from iriai.machine.checks import check_attempts, check_reasons, check_views
from iriai.machine.events import MachineEvent, PartEvent
from iriai.machine.live_queues import configure_parts
from iriai.machine.outbox import Turn
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.problem import Refused
from iriai.model.reason import Reason
from iriai.model.records import LedgerRow
from iriai.node.core import Node
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.delivery.authorization import BROKER_ONLY, is_authorized
from iriai.protocol.delivery.retransmission import Retransmission
from iriai.protocol.election.election import Election
from iriai.protocol.messages.candidates import BrokerCandidate, ClusterPeer
from iriai.protocol.messages.effects import (
    AttemptExited,
    Delivered,
    Effect,
    LinkDown,
    LinkUp,
    MachineForgotten,
    Part,
    PeersChanged,
    Persist,
    Send,
    UsageForgotten,
    UsageLearned,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.elections import AskBroker, BrokerIs, Heard
from iriai.protocol.messages.scheduling import (
    Explain,
    Forward,
    Idle,
    Message,
    Returned,
    Summary,
    Want,
    Withdraw,
)

# Looked up once: a member of an enumeration costs as much as a call.
_NODE, _HOME, _BROKER, _SUCCESSION = Part.NODE, Part.HOME, Part.BROKER, Part.SUCCESSION
_OF_ALL = frozenset({Part.MEMBERSHIP, Part.DIRECTORY, Part.SUCCESSION, Part.INQUIRY})
"""Any machine may send messages to these parts; they check statements about others themselves."""
_OF_ITS_OWN = frozenset({Part.BROKER, Part.STREAMS})
"""A machine that is no longer the broker answers with the broker's name."""
_OF_OTHERS = (LinkUp, LinkDown, PeersChanged)
_OF_SUCCESSION = (AskBroker, BrokerIs, Heard)
_BETWEEN_CLUSTERS = (Summary, Forward, Returned)

ROUNDS_MAX = 1000
"""A turn settles in a handful of rounds; with more, parts answer each other in a loop."""
UNSETTLED_SHOWN = 5
"""Jobs that a refusal names: as many as fit into a line."""
PUT_OFF_S = 1.0
"""A timer that would fire earlier than that is rearmed: a spurious wake-up costs more."""


class Machine:
    """Node, home and broker of one machine, or some of them."""

    def __init__(
        self,
        name: str,
        node: Node | None,
        home: Home | None,
        broker: Broker | None,
        *,
        broker_at: str = "",
        succession: Election | None = None,
        make_broker: Callable[[], Broker] | None = None,
    ) -> None:
        """`name` is the machine's, and that of its home; `broker_at` the broker's (empty: here).

        With `succession` the broker is elected: `make_broker` makes one that knows nothing yet,
        each time that it is this machine's turn.
        """
        self.name = name
        self._node = node
        self._home = home
        self._broker = broker
        self._broker_at = broker_at or name
        self._election = succession
        self._make_broker = make_broker
        self._configuration: Configuration | None = None  # that with which brokers are made
        self._term = 0.0
        """The term of the broker that has received everything."""
        self._retransmission = Retransmission()
        self._peer_clusters: tuple[ClusterPeer, ...] = ()
        """The clusters of the site."""
        self._usage: dict[str, dict[Account, LedgerRow]] = {}
        """Counters of other machines, also of those that left: as many as the directory may know,
        with as many accounts as a ledger stores of each, for 60 days."""
        self._now_s = 0.0
        self._alarm_s: float | None = None
        self._beat_s: float | None = None
        """The election's next."""
        self.clock_of: Callable[[str], Estimate | None] = lambda _: None
        """Returns the wall clock of a linked machine minus this one's; None: it is not known."""
        if node is not None:
            node.cycle.clock_of_broker = self._clock_of_broker
        if broker is not None:
            broker.clock_of = lambda name: None if name == self.name else self.clock_of(name)
        self._inbox: deque[Send] = deque()
        self._turn = Turn([], False, [])

    @property
    def node(self) -> Node:
        """Return its node; raise `Refused` if it has none."""
        return self._node or self._lacks(Part.NODE)

    @property
    def home(self) -> Home:
        """Return its home; raise `Refused` if it has none."""
        return self._home or self._lacks(Part.HOME)

    @property
    def broker(self) -> Broker:
        """Return its broker; raise `Refused` if it has none."""
        return self._broker or self._lacks(Part.BROKER)

    @property
    def own_broker(self) -> Broker | None:
        """Return its broker; None: it follows that of another machine."""
        return self._broker

    @property
    def decides_alone(self) -> bool:
        """Return whether its broker knows all machines: there is no other cluster to ask."""
        return self._broker is not None and len(self._peer_clusters) <= 1  # its own is among them

    @property
    def has_queue(self) -> bool:
        """Return whether a task may wait for what the end of another one brings."""
        if self._broker is None or (self._home is not None and self._home.has_dependents):
            return True
        return self._broker.has_queue

    @property
    def rate(self) -> float:
        """Return the largest charge of its node (1/s); 0 without one."""
        return self._node.settings.rate if self._node is not None else 0.0

    def counters(self) -> tuple[LedgerRow, ...]:
        """Return the ledger rows of its node."""
        return self._node.ledger.rows() if self._node is not None else ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts that the machine has."""
        every = ((Part.NODE, self._node), (Part.HOME, self._home), (Part.BROKER, self._broker))
        return tuple(part for part, core in every if core is not None)

    @property
    def broker_at(self) -> str:
        """Return the machine whose broker this one follows."""
        return self._broker_at

    @property
    def peers(self) -> tuple[BrokerCandidate, ...]:
        """Return the alive members of its cluster, itself included; none outside of a cluster."""
        return self._election.peers if self._election is not None else ()

    @property
    def peer_clusters(self) -> tuple[ClusterPeer, ...]:
        """Return the other clusters of the site, with the first candidate of each."""
        return tuple(each for each in self._peer_clusters if each.cluster != self.cluster)

    @property
    def cluster(self) -> str:
        """Return the name of its cluster; empty if it has none."""
        return self._election.cluster if self._election is not None else ""

    def follow(self, machine: str) -> None:
        """Use the broker of that machine from now on."""
        self._broker_at = machine

    def begin(self, now: Instant) -> None:
        """Begin after construction from a store: the home asks for attempts of unknown state."""
        self._now_s = now.steady_s
        if self._election is not None:
            self._sync(now)
        if self._home is not None:
            self._route(self._home.rejoin(now))

    def takes(self, sender: str, part: Part, message: Message) -> bool:
        """Return whether `sender` may send `message` to a part of this machine."""
        if part in _OF_ALL:
            return True
        core = {_NODE: self._node, _HOME: self._home}.get(part)
        is_there = core is not None or part in _OF_ITS_OWN
        return is_there and is_authorized(sender, self.name, message)

    def handle(self, event: MachineEvent, now: Instant) -> None:
        """Handle one event; `end_turn` ends the turn."""
        self._now_s = now.steady_s
        if type(event) is AttemptExited:  # the most frequent
            self.node.take(event, now)
        elif isinstance(event, Delivered):
            self._delivered(event, now)
        elif isinstance(event, Wake):
            if event.part is _SUCCESSION:
                self._woken(event, now)
            else:
                self._dispatch(event.part, event, now)
        elif isinstance(event, _OF_OTHERS):
            self._others_changed(event, now)
        elif isinstance(event, UsageLearned):
            self._learn(event.machine, event.rows, now)
        elif isinstance(event, UsageForgotten):
            self._forget_usage(event.machine)
        elif isinstance(event, MachineForgotten):
            self._forgotten(event.machine, now)
        else:
            self.node.take(event, now)

    def _others_changed(self, event: LinkUp | LinkDown | PeersChanged, now: Instant) -> None:
        """Handle a change of a link or of the set of peers."""
        succession = self._election
        if isinstance(event, PeersChanged):
            if succession is not None:
                self._peer_clusters = event.neighbours
                self._route(succession.peers_changed(event.peers, now))
                self._sync(now)
                if self._broker is not None:
                    self._broker.peers_changed(succession.cluster, self._peer_clusters)
            return
        for part in self.parts:
            self._dispatch(part, event, now)
        if succession is not None:
            self._route(succession.handle(event, now))
            self._sync(now)
        if isinstance(event, LinkUp) and event.machine == self._broker_at:
            self._resend_all()

    def submit(self, spec: JobSpec, payloads: tuple[tuple[str, bytes], ...], now: Instant) -> JobId:
        """Accept a job; its id may leave when the turn's records are durable."""
        return self.home.submit(spec, payloads, now)

    def forget(self, machine: str, now: Instant) -> None:
        """Forget a machine that ran tasks of this home and will not return.

        Raise `Refused` while it is online, or attempts on it are not settled: their results are
        still awaited.
        """
        jobs = self.home.unsettled_on(machine)
        if jobs:
            shown = ", ".join(str(job) for job in jobs[:UNSETTLED_SHOWN])
            more = len(jobs) - UNSETTLED_SHOWN
            raise Refused(
                "not-settled",
                f"the tasks that {machine} was given are not settled: "
                f"{shown}{f' and {more} more' if more > 0 else ''}",
                "bring it back, or wait: when their leases expire, these tasks are lost, and "
                "rerun elsewhere",
            )
        if self._broker is not None:
            self._broker.forget_machine(machine, now)

    def _forgotten(self, machine: str, now: Instant) -> None:
        """Forget a machine that left the directory, apart from jobs that it still has."""
        if self._broker is not None:
            self._broker.member_forgotten(machine, now)
        if self._home is not None:
            self._home.stats.forget(machine)

    def end_turn(self, now: Instant) -> Turn:
        """Deliver, decide, record; return the turn's records and the effects that wait for them."""
        self._now_s = now.steady_s
        if self._broker_at != self.name:
            self._resend(now)
        self._drain()
        home, node, inbox = self._home, self._node, self._inbox
        for _ in range(ROUNDS_MAX):
            if inbox:
                self._deliver(now)
            if home is not None and (effects := home.end_turn(now)):
                self._route(effects)
            if node is not None and (effects := node.end_turn(now)):
                self._route(effects)
            if inbox:
                self._deliver(now)
            if self._broker is not None and (effects := self._broker.end_turn(now)):
                self._route(effects)
            if not inbox and (node is None or node.is_idle):
                break
        else:
            raise AssertionError("the parts of this machine do not come to rest")
        if home is not None and (effects := home.record(now)):
            self._route(effects)
        self._set_alarm()
        turn, self._turn = self._turn, Turn([], False, [])
        return turn

    def explain(self, number: int, now: Instant) -> list[Reason]:
        """Return why the first waiting task of a job has not started, the main reason first.

        Empty only if no task of it waits. Raises `NotFound`, and `Refused` if the broker of another
        machine must be asked.
        """
        if not self.home.job(number).waiting:
            return []
        reasons = self.home.explain(number)
        job = JobId(self.home.name, number)
        return reasons or self.home.explain_beside(number, self.broker.explain(job, now))

    def ask_why(self, number: int, now: Instant) -> list[Reason] | None:
        """Answer as `explain`; None: another machine was asked, and `WhyAnswered` follows.

        That may be lost: clients ask again after a while.
        """
        if self._broker is not None or not self.home.job(number).waiting:
            return self.explain(number, now)
        reasons = self.home.explain(number)
        if reasons:
            return reasons
        self._post(Send("", Part.BROKER, Explain(JobId(self.home.name, number))))
        return None

    def estimated_starts(self, now: Instant) -> dict[int, float]:
        """Return when waiting jobs of this home may start, in wall time; only beside a broker.

        An estimate for listings, for jobs without a promise; with very many jobs, not for all.
        """
        if self._broker is None or self._home is None:
            return {}
        if not any(job.waiting and job.promised_wall_s is None for job in self._home.jobs.values()):
            return {}
        return {
            job.number: now.wall_s + in_s
            for job, in_s in self._broker.estimated_starts(now).items()
            if job.home == self._home.name
        }

    def check(self, now: Instant) -> None:
        """Raise if an invariant of a part, or of the parts together, is broken after a turn."""
        for core in (self._node, self._home, self._broker):
            if core is not None:
                core.check()
        if self._node is not None and self._home is not None and self._broker is not None:
            check_attempts(self._node, self._home)
            check_views(self._node, self._home, self._broker)
            check_reasons(self._home, self._broker, now)

    # --- the broker, here or elsewhere -----------------------------------------------------------

    def _delivered(self, event: Delivered, now: Instant) -> None:
        """Handle a message of another machine."""
        sender, part, message = event.sender, event.part, event.message
        if isinstance(message, _BETWEEN_CLUSTERS):
            if self._broker is None:
                self._route([Send(sender, _SUCCESSION, BrokerIs(self._broker_at))])
                return
        elif part is _BROKER and self._election is not None:
            self._route(self._election.posted(sender, now))
            if self._broker is None:
                return  # it was sent the broker's name
        if isinstance(message, _OF_SUCCESSION):
            if not self._is_of_peer_cluster(sender, message):
                self._of_election(sender, message, now)
        elif isinstance(message, BROKER_ONLY) and sender != self._broker_at:
            return  # it was the broker until now, or claims so
        else:
            self._dispatch(part, message, now)

    def _is_of_peer_cluster(self, sender: str, message: Message) -> bool:
        """Return whether a machine of another cluster names the broker of its cluster."""
        if self._broker is None or not isinstance(message, BrokerIs):
            return False
        return self._broker.federation.corrected(sender, message.broker)

    def _of_election(
        self, sender: str, message: AskBroker | BrokerIs | Heard, now: Instant
    ) -> None:
        if isinstance(message, Heard) and sender == self._broker_at:
            self._retransmission.acknowledged(message, now.steady_s)
            if message.is_lacking and self._node is not None:
                self._node.resend_report()
        if self._election is not None:
            self._route(self._election.receive(sender, message, now))
            self._sync(now)
        elif isinstance(message, Heard) and sender == self._broker_at:
            self._is_of_term(message.term)

    def _sync(self, now: Instant) -> None:
        """Start or stop this machine's broker as elected, and follow the elected one."""
        succession = self._election
        assert succession is not None
        if not succession.is_broker:
            self._broker = None
        elif self._broker is None or self._broker.sessions.term != succession.term:
            self._broker = self._new_broker()
            self._broker.begin(succession.speaking(now.steady_s), succession.term, now)
            self._broker.peers_changed(succession.cluster, self._peer_clusters)
            self._send_counters(self._broker, now)
        if succession.broker != self._broker_at:
            self._broker_at = succession.broker
            self._term = succession.term
            self._resend_all()
        else:
            self._is_of_term(succession.term)

    def _new_broker(self) -> Broker:
        assert self._make_broker is not None, "only the broker of a cluster can be elsewhere"
        broker = self._make_broker()
        broker.clock_of = lambda name: None if name == self.name else self.clock_of(name)
        if self._configuration is not None:
            broker.configured(self._configuration)
        return broker

    def configured(self, configuration: Configuration) -> None:
        """Take a configuration with other queues than before, for this broker and later ones."""
        self._configuration = configuration
        configure_parts(configuration, self._node, self._home, self._broker)

    def _clock_of_broker(self) -> Estimate | None:
        is_here = self._broker is not None
        return Estimate(0.0, 0.0) if is_here else self.clock_of(self._broker_at)

    def _send_counters(self, broker: Broker, now: Instant) -> None:
        """Send the counters of all machines to a new broker."""
        for name, rows in self._usage.items():
            broker.learned(name, rows.values(), now)

    def without_broker(self, now: Instant) -> Broker:
        """Return a temporary broker that knows only the counters of machines.

        It answers clients while the broker of another machine does not.
        """
        broker = self._new_broker()
        self._send_counters(broker, now)
        return broker

    def _learn(self, machine: str, rows: tuple[LedgerRow, ...], now: Instant) -> None:
        """Store a machine's counters: every machine may become the broker."""
        known = self._usage.setdefault(machine, {})
        known.update((row.account, row) for row in rows)
        if self._broker is not None:
            self._broker.learned(machine, rows, now)

    def _forget_usage(self, machine: str) -> None:
        """Forget the counters of a machine that are too old."""
        self._usage.pop(machine, None)
        if self._broker is not None:
            self._broker.usage_forgotten(machine)

    def _is_of_term(self, term: float) -> None:
        """Send everything again if the broker is of another term than the last complete report.

        A report sent while no term was known may have gone to a machine that was not the broker.
        """
        if term and term != self._term:
            self._term = term
            self._resend_all()

    def _resend_all(self) -> None:
        """Send everything again: the broker is new, or may not have received it."""
        self._retransmission.begin(self._now_s)
        if self._node is not None:
            self._node.resend_report()
        if self._home is not None:
            self._home.resend_requests()

    def _woken(self, event: Wake, now: Instant) -> None:
        """Handle the alarm of the election; `end_turn` sends messages again."""
        self._alarm_s = None
        if self._beat_s is not None and self._beat_s <= now.steady_s:
            self._beat_s = None
            assert self._election is not None
            self._route(self._election.handle(event, now))
            self._sync(now)

    def _resend(self, now: Instant) -> None:
        """Send again what the broker of another machine has not acknowledged for long."""
        posting = self._retransmission
        if posting.next_s > now.steady_s:
            return
        is_report, wants = posting.overdue(now.steady_s)
        is_quiet = posting.is_refresh_due(now.steady_s)
        if self._node is not None and (is_report or is_quiet):
            self._node.resend_report()
        if self._home is not None:
            self._home.requests.again(wants)
            if is_quiet:
                self._home.requests.refresh()
        posting.sent(now.steady_s)
        if self._election is not None and (is_report or wants):
            self._route(self._election.suspect(now))
            self._sync(now)

    def _set_alarm(self) -> None:
        """Set one alarm for the election's next event and the next retransmission."""
        if self._broker_at == self.name and self._beat_s is None:
            return
        due_s = inf if self._beat_s is None else self._beat_s
        if self._broker_at != self.name:
            due_s = min(due_s, self._retransmission.next_s)
        alarm_s = self._alarm_s
        if alarm_s is None or due_s < alarm_s or due_s > alarm_s + PUT_OFF_S:
            self._alarm_s = due_s
            self._turn.outward.append(WakeAt(Part.SUCCESSION, due_s))

    def _lacks(self, part: Part) -> NoReturn:
        raise Refused(
            "no-such-part",
            f"{self.name} has no {part}: it is one of several machines that work together",
            f"ask {self._broker_at}" if self._broker_at != self.name else "ask another machine",
        )

    def _deliver(self, now: Instant) -> None:
        """Pass messages to the parts of this machine until none answers any more."""
        inbox, home, node = self._inbox, self._home, self._node
        while inbox:
            while inbox:
                send = inbox.popleft()
                part = send.part
                if part is _HOME and home is not None:
                    home.take(send.message, now)  # type: ignore[arg-type]
                elif part is _NODE and node is not None:
                    node.take(send.message, now)  # type: ignore[arg-type]
                else:
                    self._dispatch(part, send.message, now)
            self._drain()

    def _dispatch(self, part: Part, event: PartEvent, now: Instant) -> None:
        """Pass an event to a part of this machine; `_drain` takes its effects."""
        if part is _NODE:
            (self._node or self.node).take(event, now)  # type: ignore[arg-type]
        elif part is _HOME:
            (self._home or self.home).take(event, now)  # type: ignore[arg-type]
        elif part is _BROKER:
            if self._broker is not None:
                self._broker.take(event, now)  # type: ignore[arg-type]
            elif self._election is None:  # else it was for an earlier broker; the next gets all
                self._lacks(part)
        elif part is not _SUCCESSION:  # which is what a broker acknowledges to its own machine
            self._lacks(part)

    def _drain(self) -> None:
        """Take the effects of the parts; a broker has them at the end of the turn."""
        if self._home is not None and (effects := self._home.drain_effects()):
            self._route(effects)
        if self._node is not None and (effects := self._node.drain_effects()):
            self._route(effects)

    def _route(self, effects: list[Effect]) -> None:
        turn, inbox, name = self._turn, self._inbox, self.name
        records, is_urgent = turn.records, turn.is_urgent
        for effect in effects:
            if type(effect) is Persist:  # the most frequent first
                records.append(effect.record)
                is_urgent |= effect.urgent
            elif type(effect) is Send:
                (inbox.append if effect.machine == name else self._post)(effect)
            elif type(effect) is WakeAt and effect.part is _SUCCESSION:
                self._beat_s = effect.steady_s
            else:
                turn.outward.append(effect)
        turn.is_urgent = is_urgent

    def _post(self, send: Send) -> None:
        """Deliver to a part of this machine, or queue for another until the records are durable."""
        part = send.part
        machine = send.machine or (self._broker_at if part is _BROKER else self.name)
        if machine == self.name:
            self._inbox.append(send)
            return
        if part is _BROKER:
            self._note(send.message)
        self._turn.outward.append(send if send.machine else Send(machine, part, send.message))

    def _note(self, message: Message) -> None:
        """Note a message to the broker of another machine, which is to be acknowledged."""
        if isinstance(message, Idle):
            self._retransmission.reported(message.incarnation, message.version, self._now_s)
        elif isinstance(message, Want | Withdraw):
            self._retransmission.wanted(message.job.number, message.stamp, self._now_s)
