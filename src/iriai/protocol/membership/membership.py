"""Membership: SWIM with Lifeguard (spec 006, section 3).

Das, Gupta, Motivala: SWIM (DSN 2002): probes, indirect probes, suspicion, news with each message.
Dadgar, Phillips, Currey: Lifeguard (DSN-W 2018): self-doubt (section IV-A), suspicions that others
shorten (IV-B), a probe tells the suspected (IV-C). Input: messages of other memberships, entries of
kind `member` that the table took, the alarm. Output: messages, and `MembersChanged`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from random import Random
from typing import assert_never

import msgspec

from iriai.model.instant import Instant
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.publisher import Publisher
from iriai.protocol.directory.validation import read_member
from iriai.protocol.membership.doubts import Doubts
from iriai.protocol.membership.piggyback import PiggybackQueue
from iriai.protocol.membership.probes import Help, OwnProbe, Probes
from iriai.protocol.membership.suspicion import Suspicion
from iriai.protocol.messages import gossip
from iriai.protocol.messages.effects import Effect, MembersChanged, Part, Send, WakeAt
from iriai.protocol.messages.entries import Entry
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.misbehaviour import PERIODS, Incidents, RateLimit
from iriai.protocol.sampling import Round, some

SCORE_MAX = 8
"""Of self-doubt; Lifeguard's maximum of the local health multiplier."""
SCORE_ON_WAKING = 3
"""Of one that slept: it listens for some seconds before it says anything of others."""
HELPERS = 3
MISSED_AFTER = 0.8
"""The part of the asker's patience after which a helper says that it has no answer."""
REFUTE_EACH_S = 1.0
"""Between two refutations: so the incarnation of a machine, which begins as the seconds of its wall
clock, is never ahead of that, however often others doubt it."""
SCORE_EACH_S = 5.0
"""Between two refutations that make a machine doubt itself: as long as an honest suspicion lasts at
least, so that one that lies cannot slow others down."""
MESSAGES_A_PERIOD_MAX = 100
"""Messages accepted from one machine: an honest one sends a probe, and helps some others."""


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """How fast it is. Shorter: deaths are seen sooner, for more messages and more false alarms."""

    period_s: float = 1.0
    """The interval between two probes of this machine, from 0.2 to 60."""
    patience_s: float = 0.5
    """For an answer, before others are asked to try; over twice the longest way, below a period."""
    dead_each_s: float = 30.0
    """The interval between two probes of machines considered dead."""
    slept_after_s: float = 5.0
    """How late an alarm must be for this machine to know that it slept."""


class _Peer:
    __slots__ = ("earlier_instance", "member", "suspicion")

    def __init__(self, member: Member) -> None:
        self.member = member
        self.suspicion: Suspicion | None = None
        self.earlier_instance = ""


class Membership:
    """The membership protocol of one machine."""

    def __init__(
        self,
        publisher: Publisher,
        table: EntryTable,
        doubts: Doubts,
        notices: Incidents,
        rng: Random,
        settings: MembershipSettings,
    ) -> None:
        self.score = 0
        """Self-doubt, from 0 to `SCORE_MAX`."""
        self._probed = ""
        self._announced: Member | None = None
        """The last published state of this machine."""
        self._settings = settings
        self._publisher = publisher
        self._table = table
        self._doubts = doubts
        self._incidents = notices
        self._rng = rng
        self._allowance = RateLimit(MESSAGES_A_PERIOD_MAX * PERIODS, settings.period_s * PERIODS)
        self._peers: dict[str, _Peer] = {}
        self._round = Round(rng)
        self._probes = Probes()
        self._piggyback = PiggybackQueue(table)
        self._suspects: dict[str, None] = {}
        self._changed: dict[str, Member] = {}
        self._effects: list[Effect] = []
        self._period_ends_s = -inf
        self._dead_due_s = -inf
        self._refutes_s = inf
        """When this machine refutes the doubts of it; infinite if there are none."""
        self._refuted_s = -inf
        self._score_due_s = -inf
        self._alarm_s = inf

    @property
    def members(self) -> Mapping[str, Member]:
        """The other machines by name, with the states that this one assigns to them."""
        return {name: peer.member for name, peer in self._peers.items()}

    def member(self, name: str) -> Member | None:
        """Return another machine with its assigned state; None if it is unknown."""
        peer = self._peers.get(name)
        return peer.member if peer else None

    def handle(
        self, sender: str, message: gossip.ToMembership | None, now: Instant
    ) -> list[Effect]:
        """Handle a message, or the alarm if it is None."""
        self._notice_sleep(now)
        if message is None:
            self._alarm_s = inf
        elif self._allowance.takes(sender, now.steady_s):
            for doubt in message.news.doubts:
                self._receive_suspicion(sender, doubt, now)
            self._receive(sender, message, now)
        else:
            words = f"over {MESSAGES_A_PERIOD_MAX} messages a period to the membership; dropped"
            self._incidents.note("flood", sender, words)
        self._poll_timers(now)
        return self._taken(now)

    def drain_probed(self) -> str:
        """Return the machine probed since the last call; empty if none was."""
        probed, self._probed = self._probed, ""
        return probed

    def entries_changed(
        self, entries: list[Entry], now: Instant, *, is_old: bool = False
    ) -> list[Effect]:
        """These entries of kind `member` are new in the table, this machine's own among them.

        `is_old`: the others have them as well. An entry that was only published again says
        nothing new, either: the directory brings it to all.
        """
        for entry in entries:
            member = read_member(entry)
            is_own = entry.machine == self._publisher.name
            if self._is_unchanged(member, is_own=is_own):
                continue
            if not is_old:
                self._piggyback.member(entry.machine)
            if is_own:
                self._announced = member
            else:
                self._update(member, now)
        return self._taken(now)

    def forgotten(self, machines: list[str], now: Instant) -> list[Effect]:
        """Forget machines whose entries have expired."""
        for name in machines:
            peer = self._peers.pop(name, None)
            self._suspects.pop(name, None)
            self._round.discard(name)
            if peer is not None and peer.member.is_present:
                self._changed[name] = msgspec.structs.replace(peer.member, state=MemberState.DEAD)
        return self._taken(now)

    def check(self) -> None:
        """Raise where an invariant is broken."""
        for name, peer in self._peers.items():
            is_suspect = peer.member.state is MemberState.SUSPECT
            assert is_suspect == (peer.suspicion is not None) == (name in self._suspects)
        assert self._present_count == 1 + sum(p.member.is_present for p in self._peers.values())

    # --- what is known of members ----------------------------------------------------------------

    def _is_unchanged(self, member: Member, *, is_own: bool) -> bool:
        """Return whether a member published its known state again, and nobody doubts it."""
        if is_own:
            return member == self._announced
        peer = self._peers.get(member.name)
        return peer is not None and peer.member == member

    def _update(self, member: Member, now: Instant) -> None:
        """Apply the state that a member published."""
        peer = self._peers.get(member.name)
        if peer is None:
            peer = self._peers[member.name] = _Peer(member)
        else:
            self._watch_for_twins(peer, member)
            state = member.state
            if state is MemberState.ALIVE and member.incarnation == peer.member.incarnation:
                # The doubts there are stand: only a higher incarnation voids them.
                state = peer.member.state
            elif state is MemberState.ALIVE and peer.suspicion is not None:
                for doubter in peer.suspicion.doubters:
                    self._doubts.refuted(doubter, member.name, now.steady_s)
            self._become(peer, msgspec.structs.replace(member, state=state))
        self._changed[member.name] = peer.member
        if peer.member.is_present:
            self._round.add(member.name)

    def _become(self, peer: _Peer, member: Member) -> None:
        peer.member = member
        if member.state is not MemberState.SUSPECT:
            peer.suspicion = None
            self._suspects.pop(member.name, None)
        if not member.is_present:
            self._round.discard(member.name)
        self._changed[member.name] = member

    def _watch_for_twins(self, peer: _Peer, member: Member) -> None:
        if member.instance == peer.member.instance:
            return
        if member.instance == peer.earlier_instance:
            words = "two machines, or two copies of one state directory, publish under this name"
            self._incidents.note("two-machines-one-name", member.name, words)
        peer.earlier_instance = peer.member.instance

    def _receive_suspicion(self, sender: str, doubt: gossip.Doubt, now: Instant) -> None:
        """Someone says that a member is doubted.

        It is of the incarnation that the member published, or nothing: of an earlier one it is
        void, and of a later one nobody here knows anything.
        """
        if doubt.machine == self._publisher.name:
            if doubt.incarnation == self._publisher.incarnation and self._is_taking_part:
                self._refutes_s = min(self._refutes_s, self._refuted_s + REFUTE_EACH_S)
                self._refute_if_due(now)
            return
        peer = self._peers.get(doubt.machine)
        if peer is None or doubt.incarnation != peer.member.incarnation:
            return
        if not peer.member.is_present or _says_nothing_new(peer.suspicion, doubt):
            return
        if self._doubts.is_believed(doubt, sender, now.steady_s):
            self._suspect(peer, doubt, now)

    def _suspect(self, peer: _Peer, doubt: gossip.Doubt, now: Instant) -> None:
        """Suspect a present member, by a doubt of this machine or another."""
        suspicion = peer.suspicion
        if suspicion is None:
            period_s = self._settings.period_s
            suspicion = peer.suspicion = Suspicion(doubt, self._present_count, period_s, now)
            self._suspects[doubt.machine] = None
            self._become(peer, msgspec.structs.replace(peer.member, state=MemberState.SUSPECT))
            is_news = True
        else:
            is_news = suspicion.confirm(doubt.by)
        if doubt.is_dead and suspicion.hasten():
            is_news = True
            self._probe_aside(doubt.machine, now)  # it is to hear of it in time
        if is_news:
            self._piggyback.suspect(doubt)

    def _give_up(self, name: str, suspicion: Suspicion) -> None:
        """Declare a suspected member dead."""
        peer = self._peers[name]
        incarnation = peer.member.incarnation
        self._become(peer, msgspec.structs.replace(peer.member, state=MemberState.DEAD))
        if not suspicion.is_hastened:  # else the others are told so already
            self._piggyback.suspect(self._doubts.own(name, incarnation, is_dead=True))

    def _refute_if_due(self, now: Instant) -> None:
        """Refute doubts of this machine, if that is due."""
        if self._refutes_s > now.steady_s:
            return
        self._refutes_s, self._refuted_s = inf, now.steady_s
        self._publisher.refute(now)
        self._piggyback.member(self._publisher.name)  # whoever is answered now is told
        if self._score_due_s <= now.steady_s:
            self._score_due_s = now.steady_s + SCORE_EACH_S
            self._score(+1)

    def _suspicions(self) -> Iterator[tuple[str, Suspicion]]:
        for name in self._suspects:
            suspicion = self._peers[name].suspicion
            if suspicion is not None:
                yield name, suspicion

    @property
    def _is_taking_part(self) -> bool:
        return self._publisher.member.state is MemberState.ALIVE

    @property
    def _present_count(self) -> int:
        """The number of present members, this one included."""
        return 1 + len(self._round)

    # --- messages --------------------------------------------------------------------------------

    def _receive(self, sender: str, message: gossip.ToMembership, now: Instant) -> None:
        match message:
            case gossip.Probe(number):
                self._send(sender, gossip.ProbeAnswer(number, self._news_for(sender, now)))
            case gossip.ProbeFor(number, machine):
                self._help(sender, number, machine, now)
            case gossip.ProbeAnswer(number):
                help_ = self._probes.answered(number, sender)
                if help_ is not None:
                    news = self._news_for(help_.asker, now)
                    self._send(help_.asker, gossip.ProbeAnswer(help_.asked_number, news))
            case gossip.ProbeMissed(number):
                self._probes.missed(number, sender)
            case _:
                assert_never(message)

    def _help(self, asker: str, asked_number: int, machine: str, now: Instant) -> None:
        if machine not in self._peers:
            return
        settings = self._settings
        missed_at_s = now.steady_s + MISSED_AFTER * settings.patience_s
        over_at_s = now.steady_s + settings.period_s * (1 + SCORE_MAX)
        number = self._probes.help(Help(asker, asked_number, machine, missed_at_s, over_at_s))
        if number is not None:
            self._send(machine, gossip.Probe(number, self._news_for(machine, now)))

    def _news_for(self, machine: str, now: Instant) -> gossip.News:
        """Return news for `machine`, always with the doubt of it if there is one."""
        peer = self._peers.get(machine)
        about = None
        if peer is not None and peer.member.state in {MemberState.SUSPECT, MemberState.DEAD}:
            is_dead = peer.member.state is MemberState.DEAD
            about = gossip.Doubt(machine, peer.member.incarnation, is_dead, self._publisher.name)
        return self._piggyback.next_batch(self._present_count, now, about)

    def _send(self, machine: str, message: gossip.ToMembership) -> None:
        self._effects.append(Send(machine, Part.MEMBERSHIP, message))

    # --- time ------------------------------------------------------------------------------------

    def _notice_sleep(self, now: Instant) -> None:
        """Notice a late alarm: this machine slept, so the others were not silent."""
        slept_s = now.steady_s - self._alarm_s
        if slept_s < max(self._settings.slept_after_s, self._period_s):
            return
        self._probes.forget()
        self.score = max(self.score, SCORE_ON_WAKING)
        self._period_ends_s = now.steady_s
        for _, suspicion in self._suspicions():
            suspicion.slept(slept_s)

    def _poll_timers(self, now: Instant) -> None:
        if not self._is_taking_part:
            return
        own = self._probes.own
        if own is not None and not own.is_answered and own.patience_until_s <= now.steady_s:
            self._ask_for_help(own, now)
        for help_ in self._probes.overdue(now.steady_s):
            self._send(help_.asker, gossip.ProbeMissed(help_.asked_number, self._news_for("", now)))
        for name, suspicion in list(self._suspicions()):
            if suspicion.until_s <= now.steady_s:
                self._give_up(name, suspicion)
        self._refute_if_due(now)
        if self._period_ends_s <= now.steady_s:
            self._end_period(now)

    def _ask_for_help(self, own: OwnProbe, now: Instant) -> None:
        own.patience_until_s = inf
        others = [
            name
            for name, peer in self._peers.items()
            if peer.member.state is MemberState.ALIVE and name != own.machine
        ]
        for helper in some(others, HELPERS, self._rng):
            own.helpers.append(helper)
            news = self._news_for(helper, now)
            self._send(helper, gossip.ProbeFor(own.number, own.machine, news))

    def _end_period(self, now: Instant) -> None:
        own, self._probes.own = self._probes.own, None
        if own is not None:
            self._judge(own, now)
        self._period_ends_s = now.steady_s + self._period_s
        name = self._round.next()
        if name is not None:
            self._probe(name, now)
        if self._dead_due_s <= now.steady_s:
            self._dead_due_s = now.steady_s + self._settings.dead_each_s
            self._probe_a_dead_one(now)

    def _judge(self, own: OwnProbe, now: Instant) -> None:
        peer = self._peers.get(own.machine)
        if own.is_answered:
            self._score(-1)
        elif peer is not None and peer.member.is_present:
            # Helpers that say so have shown that our network works; without any, doubt ourselves.
            self._score(len(own.helpers) - len(own.missed) if own.helpers else +1)
            if peer.suspicion is None or not peer.suspicion.is_shared_by(self._publisher.name):
                incarnation = peer.member.incarnation
                doubt = self._doubts.own(own.machine, incarnation, is_dead=False)
                self._suspect(peer, doubt, now)

    def _probe(self, name: str, now: Instant) -> None:
        number = self._probes.number()
        patience_s = self._settings.patience_s * (1 + self.score)
        self._probed = name
        self._probes.own = OwnProbe(name, number, now.steady_s + patience_s)
        self._send(name, gossip.Probe(number, self._news_for(name, now)))

    def _probe_a_dead_one(self, now: Instant) -> None:
        """Probe a dead machine, so that the halves of a parted network find each other."""
        dead = [n for n, p in self._peers.items() if p.member.state is MemberState.DEAD]
        for name in some(dead, 1, self._rng):
            self._probe_aside(name, now)

    def _probe_aside(self, name: str, now: Instant) -> None:
        """Probe a machine outside the round; a missing answer has no consequences."""
        self._send(name, gossip.Probe(self._probes.number(), self._news_for(name, now)))

    @property
    def _period_s(self) -> float:
        return self._settings.period_s * (1 + self.score)

    def _score(self, change: int) -> None:
        self.score = min(SCORE_MAX, max(0, self.score + change))

    # --- effects ---------------------------------------------------------------------------------

    def _taken(self, now: Instant) -> list[Effect]:
        effects, self._effects = self._effects, []
        if self._changed:
            effects.append(MembersChanged(tuple(self._changed.values())))
            self._changed = {}
        times = [self._period_ends_s, self._probes.next_s, self._refutes_s]
        times += [suspicion.until_s for _, suspicion in self._suspicions()]
        alarm_s = max(min(times), now.steady_s) if self._is_taking_part else inf
        if alarm_s != self._alarm_s:
            self._alarm_s = alarm_s
            if alarm_s < inf:
                effects.append(WakeAt(Part.MEMBERSHIP, alarm_s))
        return effects


def _says_nothing_new(suspicion: Suspicion | None, doubt: gossip.Doubt) -> bool:
    """Return whether a doubt changes nothing, so that its signature need not be checked."""
    if suspicion is None:
        return False
    return suspicion.is_hastened if doubt.is_dead else suspicion.is_shared_by(doubt.by)
