"""Memberships and directories among which one member lies; what it says is drawn from a seed.

Each lie is one that was seen to do harm, or an honest message with one field altered. The others
are looked at while it lies, and when it has stopped: nobody honest is lost, nobody honest is
accused, and no account's use grows by more than a machine of the liar's size can have counted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Decay
from iriai.policy.accounting.runtime_estimates import RunTimes
from iriai.protocol.directory.entry_table import AHEAD_S_MAX
from iriai.protocol.directory.validation import NUMBER_MAX, member_body
from iriai.protocol.ledger.ledger import BatchRow, LedgerBatch, batch_body
from iriai.protocol.ledger.use_bounds import (
    ADVANCE_FACTOR,
    ADVANCE_SLACK_S,
    SLACK_S,
    TOLERANCE,
)
from iriai.protocol.membership.doubts import REFUTED_MAX
from iriai.protocol.membership.doubts import signed_content as doubt_content
from iriai.protocol.membership.suspicion import LEAST_FACTOR, MOST_FACTOR
from iriai.protocol.messages.effects import Delivered, Part
from iriai.protocol.messages.entries import Carried, Entry, EntryKind, signed_content
from iriai.protocol.messages.gossip import (
    Doubt,
    Entries,
    News,
    Probe,
    ProbeAnswer,
    ProbeMissed,
    ToDirectory,
    ToMembership,
)
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.messages.rpc import Inform
from iriai.protocol.messages.scheduling import Message, Summary
from iriai.protocol.misbehaviour import LIES
from iriai.protocol.sampling import CIRCLE, STAYS
from iriai.sim.faults.search import failure_of
from iriai.sim.world.clock import Clock
from iriai.sim.world.keyed_signatures import KeyedSigner, signed_document
from iriai.sim.world.rng import Rng
from iriai.wire.inquiries import encode_response
from iriai.wire.machines import MatchTable
from tests.protocol.ledger_use import use_of
from tests.sim.lying.lies import altered
from tests.sim.lying.told_parts import ToldParts
from tests.sim.peer_world import PeerWorld, Ways

LIAR = "liar"
GONE = "gone"
"""An honest machine that crashes while the liar speaks."""
BEGINS_S, ENDS_S = 20.0, 80.0
"""The times of the lies."""
ALONE_S = LEAST_FACTOR * MOST_FACTOR
"""Of a period of 1 s: how long one waits that came up again, and suspects what all others took for
dead before."""
PROBED_S = 30.0
"""Seconds in which a machine probes each member of its circle at least once."""
PATIENCE_S = 60.0
"""Seconds after the last lie in which all honest machines see each other as alive."""
LIES_PER_S = 10
FORGED_CHANCE = 0.1
"""The chance of a forged document with each claim: whoever sends many is not listened to."""
CHECK_EACH_S = 0.5
ANSWERS_EACH_S = 0.1
"""Seconds between two attempts of the liar to answer probes of the dead machine."""
SUSPICIONS_MAX = REFUTED_MAX + 10
"""Of honest machines, by one of them, in all: those by the liar until it is not believed any more,
and honest ones, which are few where no message is lost."""
LIAR_CPUS = 4.0
"""The cpus that the liar claims where it does not claim too much."""
HONEST_CPUS = 1.0
"""The processors of each other machine, in use all the time."""
FADING = Decay(604_800.0)
MOST_S = (
    TOLERANCE
    * LIAR_CPUS
    * (FADING.counting_s + SLACK_S + ADVANCE_FACTOR * (FADING.counting_s + ADVANCE_SLACK_S))
)
"""The most seconds that a machine of the liar's size can have counted."""


def fails(seed: int) -> str | None:
    """Play the world of a seed; return what fails, or None."""
    return failure_of(lambda: _World(seed).play())


class _World:
    def __init__(self, seed: int) -> None:
        self.rng = Rng(seed, "lies")
        self._claims = Rng(seed, "claims")
        """For what the liar claims of others than members."""
        self.peers = PeerWorld(seed, Ways(has_relays=True), needs_certificates=True)
        self.peers.on_event = lambda machine, event: self._told[machine.name].take(event)
        self._told: dict[str, ToldParts] = {}
        """By machine, what its parts were told since it came up."""
        self._documents: list[Entry] = []
        """All that operators signed."""
        self._signer = KeyedSigner(seed, LIAR)
        self._received: list[ToMembership | ToDirectory] = []
        """Messages of honest machines to the liar."""
        count = 5 + self.rng.below(4)
        names = [f"m{number}" for number in range(count)]
        for name in (*names, GONE, LIAR):
            self._add(name, [] if name == names[0] else [names[0]])
        self.honest = [*names, GONE]
        is_circle_full = len(names) + 1 > CIRCLE
        waits_s = (
            STAYS if is_circle_full else 0.0
        )  # until another one makes room, at a period of 1 s
        self._known_dead_s = ENDS_S + PROBED_S + ALONE_S + waits_s
        """When all honest machines take the crashed one for dead; the liar answers until then."""
        self._framed = self.rng.pick(names)
        """The member in whose name the liar doubts."""
        self.peers.on_send = lambda _, send: (
            self._received.append(send.message)  # type: ignore[arg-type]
            if send.machine == LIAR
            else None
        )

    def _add(self, name: str, seeds: list[str]) -> None:
        clock = Clock(self.rng.between(0.0, 1e6), self.rng.between(-30.0, 30.0))
        now = clock.at(self.peers.now_s)
        self._told[name] = ToldParts()
        machine = self.peers.add(
            name,
            seeds,
            clock=clock,
            incarnation=int(now.wall_s),
            instance=name,
            counters=partial(self._counted, name, clock),
        )
        certificate = KeyedSigner(self.peers.seed, name).certificate
        effects = machine.member.publish(EntryKind.CERTIFICATE, certificate, now)
        self.peers.perform(machine, effects)

    def _counted(self, name: str, clock: Clock) -> tuple[LedgerRow, ...]:
        """Return the counters of a machine whose one processor was used since the beginning."""
        now_s = self.peers.now_s
        counter = FADING.counter().charged(HONEST_CPUS * now_s, 0.0, clock.at(now_s).wall_s)
        return (counter.row(Account("lab", name), RunTimes(int(now_s), now_s)),)

    # --- the story -------------------------------------------------------------------------------

    def play(self) -> None:
        """Run the world while the liar lies, and check it during the lies and after them."""
        peers = self.peers
        peers.run_until(BEGINS_S)
        assert not self._lost(), "they never knew each other"
        at_s = BEGINS_S
        while at_s < ENDS_S:
            at_s += self.rng.between(0.0, 2.0 / LIES_PER_S)
            peers.agenda.at(at_s, self._lie)
        peers.agenda.at(self.rng.between(BEGINS_S, ENDS_S / 2), partial(self._crash, GONE))
        peers.agenda.at(BEGINS_S, self._answer)
        peers.agenda.at(BEGINS_S, self._ask_and_claim)
        peers.agenda.at(self._claims.between(BEGINS_S, ENDS_S), self._sign)
        restarts = self.rng.pick(self.honest[:-1])
        peers.agenda.at(self.rng.between(BEGINS_S, ENDS_S / 2), partial(self._restart, restarts))
        while peers.now_s < ENDS_S:
            peers.run_until(peers.now_s + CHECK_EACH_S)
            self._check()
        peers.run_until_true(self._is_known_dead, self._known_dead_s)
        self._check_dead()
        peers.crash(LIAR)  # it is ejected, or stops
        found_s = peers.run_until_true(lambda: not self._lost(), peers.now_s + PATIENCE_S)
        assert found_s is not None, f"lost for good: {self._lost()}"
        self._check()

    def _crash(self, name: str) -> None:
        self.honest.remove(name)
        self.peers.crash(name)

    def _restart(self, name: str) -> None:
        """Restart a machine at once, without any state."""
        self.peers.crash(name)
        self._add(name, ["m0" if name != "m0" else "m1"])

    def _lost(self) -> list[str]:
        """Return the pairs of honest machines of which one does not see the other as alive."""
        return [
            f"{other} to {name}"
            for name in self.honest
            for other in self.honest
            if other != name and self._taken_for(name, other) is not MemberState.ALIVE
        ]

    def _taken_for(self, name: str, other: str) -> MemberState | None:
        return self.peers.machines[name].takes_for(other)

    def _is_known_dead(self) -> bool:
        return all(self._taken_for(name, GONE) is MemberState.DEAD for name in self.honest)

    def _check_dead(self) -> None:
        """Check that all honest machines see the crashed one as dead."""
        for name in self.honest:
            state = self._taken_for(name, GONE)
            assert state is MemberState.DEAD, f"{name} takes {GONE} for {state}"

    def _check(self) -> None:
        """Check the invariants of the honest machines."""
        now_s = self.peers.now_s
        for name in self.honest:
            machine = self.peers.machines[name]
            now = machine.clock.at(now_s)
            machine.peers.check()
            for other in self.honest:
                state = machine.takes_for(other)
                assert state is not MemberState.DEAD, f"{name} takes {other} for dead"
            own = machine.peers.publisher.incarnation
            assert own <= now.wall_s + 60.0, f"{name} has incarnation {own}"
            for entry in machine.peers.table:
                limit = now.wall_s + AHEAD_S_MAX + 60.0
                words = f"{name} holds {entry.machine}'s {entry.incarnation}"
                assert entry.incarnation <= limit, words
            suspicions = sum(m.state is MemberState.SUSPECT for m in machine.changes)
            assert suspicions <= SUSPICIONS_MAX, f"{name} suspected others {suspicions} times"
            self._told[name].check(machine, [*self.honest, GONE], self._documents)
            used_s = sum(use_of(machine.member.ledger.ledger, now.wall_s).values())
            honest_s = HONEST_CPUS * now_s * len(self.peers.machines)
            assert used_s <= MOST_S + honest_s, f"{name} believes that {used_s:.0f} s were used"
            for notice in machine.notices:
                is_lie = notice.code in LIES or notice.code == "refuted-doubts"
                is_just = not is_lie or notice.machine == LIAR
                assert is_just, f"an honest machine is accused: {notice}"
            unjust = machine.member.incidents.proposals({LIAR})
            assert not unjust, f"operators are advised to eject an honest machine: {unjust}"

    # --- what else is said -----------------------------------------------------------------------

    def _sign(self) -> None:
        """Let an operator throw out a machine that is not there; one honest machine hears first."""
        document = signed_document(self.peers.seed, "oni", EntryKind.EJECT, 1, b"it lied")
        self._documents.append(document)
        machine = self.peers.machines[self._claims.pick(self.honest)]
        now = machine.clock.at(self.peers.now_s)
        self.peers.perform(machine, machine.member.submit(document, now))

    def _ask_and_claim(self) -> None:
        """Let an honest machine ask another, while the liar says what is not its to say."""
        name, other = self._claims.pick(self.honest), self._claims.pick(self.honest)
        if name != other:
            number = self.peers.ask(name, other, f"{name} asks at {self.peers.now_s}")
            self._claim(
                name, Part.INQUIRY, Inform(number, encode_response(MatchTable("a lie", (), ())))
            )
        to = self._claims.pick(self.honest)
        cluster = self._claims.pick(("lab", "another"))
        self._claim(to, Part.BROKER, Summary(LIAR, cluster, (), (), 0))
        if self._claims.chance(FORGED_CHANCE):
            number = 2 + self._claims.below(5)
            forged = signed_document(-1, "oni", EntryKind.EJECT, number, b"it lied")
            self._claim(to, Part.DIRECTORY, Entries((Carried(forged, 0.0),)))
        if self.peers.now_s < ENDS_S:
            self.peers.agenda.after(self._claims.between(0.0, 2.0), self._ask_and_claim)

    def _claim(self, to: str, part: Part, message: Message) -> None:
        self.peers.arrive(self.peers.machines[to], Delivered(LIAR, part, message))

    # --- lies ------------------------------------------------------------------------------------

    def _lie(self) -> None:
        lies: tuple[Callable[[str], tuple[Part, Any]], ...] = (
            self._doubt,
            self._doubt,
            self._forged_doubt,
            self._ahead,
            self._counters,
            self._counters,
            self._altered,
            self._altered,
        )
        to = self.rng.pick(self.honest)
        part, message = self.rng.pick(lies)(to)
        event = Delivered(LIAR, part, message)
        machine = self.peers.machines[to]
        self.peers.agenda.after(0.01, partial(self.peers.arrive, machine, event))

    def _doubt(self, to: str) -> tuple[Part, Any]:
        """Doubt some machines, perhaps the receiver, at their own or another incarnation."""
        doubts = []
        for _ in range(3):
            name = self.rng.pick(self.honest)
            known = self.peers.machines[name].peers.publisher.incarnation
            incarnation = self.rng.pick((known, known, known + 1, NUMBER_MAX - 1, 2**60))
            doubts.append(self._signed(Doubt(name, incarnation, self.rng.chance(0.7), LIAR)))
        return self._news(*doubts)

    def _forged_doubt(self, to: str) -> tuple[Part, Any]:
        """Doubt all machines in the name of another member."""
        doubts = []
        for name in self.honest:
            incarnation = self.peers.machines[name].peers.publisher.incarnation
            doubts.append(
                self._signed(Doubt(name, incarnation, self.rng.chance(0.5), self._framed))
            )
        return self._news(*doubts)

    def _signed(self, doubt: Doubt) -> Doubt:
        """Sign a doubt with the liar's own key."""
        return msgspec.structs.replace(doubt, signature=self._signer.sign(doubt_content(doubt)))

    def _news(self, *doubts: Doubt) -> tuple[Part, Any]:
        return Part.MEMBERSHIP, Probe(self.rng.below(1000), News((), doubts))

    def _answer(self) -> None:
        """Answer the probes of the dead machine, as a liar that guesses their numbers."""
        for name in self.honest:
            machine = self.peers.machines[name]
            own = machine.peers.membership._probes.own
            if GONE not in self.honest and own is not None and own.machine == GONE:
                kind = ProbeAnswer if self.rng.chance(0.9) else ProbeMissed
                self.peers.arrive(machine, Delivered(LIAR, Part.MEMBERSHIP, kind(own.number)))
        liar = self.peers.machines[LIAR]
        own = liar.peers.membership._probes.own
        if GONE not in self.honest and own is not None and own.machine == GONE:
            answer = Delivered(GONE, Part.MEMBERSHIP, ProbeAnswer(own.number))
            self.peers.arrive(liar, answer)
        if self.peers.now_s < self._known_dead_s:
            self.peers.agenda.after(ANSWERS_EACH_S, self._answer)

    def _ahead(self, to: str) -> tuple[Part, Any]:
        """Publish an entry of the liar with an incarnation far in the future."""
        wall_s = self.peers.machines[LIAR].clock.at(self.peers.now_s).wall_s
        ahead_s = self.rng.pick((1e6, 1e9, float(NUMBER_MAX) / 2))
        incarnation = int(wall_s + ahead_s)
        member = Member(LIAR, incarnation, MemberState.ALIVE, "lab", instance="another")
        return self._entry(EntryKind.MEMBER, member_body(member), incarnation)

    def _counters(self, to: str) -> tuple[Part, Any]:
        """Publish more usage of an account than the machine can have counted, or almost."""
        now = self.peers.machines[LIAR].clock.at(self.peers.now_s)
        charge_s = self.rng.pick((1e3, 1e6, 1e9, 1e12))
        user = self.rng.pick(("ann", "bob", f"u{self.rng.below(1000)}"))
        advance_s = charge_s * self.rng.pick((0.0, 0.9))
        counter = FADING.counter().charged(charge_s, advance_s, now.wall_s)
        row = BatchRow.of(counter.row(Account("lab", user), RunTimes(1, 1.0)))
        rows = tuple([row] * self.rng.pick((1, 1, 3)))
        batch = LedgerBatch(self.rng.below(5), now.wall_s, rows, LIAR_CPUS)
        return self._entry(EntryKind.LEDGER, batch_body(batch), int(now.wall_s) + 1)

    def _entry(self, kind: EntryKind, body: bytes, incarnation: int) -> tuple[Part, Any]:
        version = 1_000 + self.rng.below(1_000_000)
        draft = Entry(LIAR, kind, "lab", incarnation, version, 3600.0, body, b"")
        signature = self._signer.sign(signed_content(draft))
        signed = msgspec.structs.replace(draft, signature=signature)
        return Part.DIRECTORY, Entries((Carried(signed, 0.0),))

    def _altered(self, to: str) -> tuple[Part, Any]:
        """Repeat a message of an honest machine with one field altered."""
        if not self._received:
            return self._doubt(to)
        message = self.rng.pick(tuple(self._received[-50:]))
        part = Part.MEMBERSHIP if isinstance(message, ToMembership) else Part.DIRECTORY
        return part, altered(message, self.rng)
