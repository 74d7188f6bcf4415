"""Election of a cluster's broker, as one machine sees it (docs/spec/008).

The first of the rank is. The next in line ask it each second, and when it is silent the best of
them begins in its place; the others follow whoever says of itself that it is the broker, the
best-ranked where several do. Two that believe in themselves for a moment do no harm: nodes decide.

In: who is there, messages of other machines, alarms. Out: questions and answers. Whoever drives it
reads `broker`, `term` and `is_broker` after each event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import inf
from typing import NamedTuple

from iriai.model.instant import SILENCE_S, Instant
from iriai.protocol.messages.candidates import CANDIDATES_MAX, BrokerCandidate, ranked
from iriai.protocol.messages.effects import Effect, LinkDown, LinkUp, Part, Send, Wake, WakeAt
from iriai.protocol.messages.elections import AskBroker, BrokerIs, Heard, ToSuccession

KEPT = 8
"""Cached rankings: a simulated world uses few at a time, one after the other."""


class Ranking(NamedTuple):
    """The members of a cluster as one report has them: who is there, and who could be its broker.

    A report names hundreds, and is kept by each machine that heard it. Machines of one simulated
    world hear the same: they share what follows from it, so nobody changes it.
    """

    peers: Mapping[str, BrokerCandidate] = {}
    """The members by name."""
    names: tuple[str, ...] = ()
    """The rank without regard to suspicions."""
    places: Mapping[str, int] = {}
    """Each member's index in `names`."""


@lru_cache(maxsize=KEPT)
def ranking(cluster: str, peers: tuple[BrokerCandidate, ...]) -> Ranking:
    """Return the ranking of these members."""
    names = ranked(cluster, (peer._replace(is_suspect=False) for peer in peers))
    places = {name: place for place, name in enumerate(names)}
    return Ranking({peer.name: peer for peer in peers}, names, places)


QUESTIONS = 5
"""Questions to a machine in the time after which it counts as silent: three may be lost."""
TOLD_MAX = 5
"""Announcements of a new broker to a machine that does not answer; it asks later by itself."""


class Election:
    """Decides which machine is the broker. Times are those of the steady clock."""

    def __init__(
        self,
        name: str,
        cluster: str = "",
        pinned: str = "",
        silence_s: float = SILENCE_S,
        *,
        follows: str = "",
    ) -> None:
        """`pinned` names the broker once and for all; without it the members elect it.

        `follows` is for a machine that has no broker itself: whom it follows until it knows better.

        Who says nothing for `silence_s` is not the broker any more: a paused process, or a full
        disk, is spared; work that waits for a free machine hardly notices.
        """
        self._silence_s = silence_s
        self._name = name
        self.cluster = cluster
        """The name of the cluster."""
        self._pinned = pinned
        self._may_lead = not follows
        self.broker = pinned or follows or name
        """The broker that this machine follows."""
        self.term = 0.0
        """The term of the broker, as far as it is known."""
        self._known = Ranking()
        self._suspects: dict[str, None] = {}
        self._rank: tuple[str, ...] = ()
        self._heard_s: dict[str, float] = {}
        """When each machine last sent something; a new suspected one counts from its appearance."""
        self._claims: dict[str, tuple[float, float]] = {}
        """Machines that claim to be the broker: the time of the last claim, and the term."""
        self._doubts_s: float | None = None
        """Since when the broker is in doubt; None if it is not."""
        self._watched: dict[str, None] = {}
        """The machines ahead of this one in the rank, if it is a candidate."""
        self._untold: dict[str, int] = {}
        """Machines that have not shown that they know this broker: announcements sent to each."""
        self._beat_s: float | None = None
        self._effects: list[Effect] = []

    @property
    def is_broker(self) -> bool:
        """Whether this machine considers itself the broker."""
        return self.broker == self._name

    @property
    def _peers(self) -> Mapping[str, BrokerCandidate]:
        return self._known.peers

    @property
    def peers(self) -> tuple[BrokerCandidate, ...]:
        """The present members of the cluster, this machine included."""
        return tuple(self._known.peers.values())

    def speaking(self, now_s: float) -> tuple[BrokerCandidate, ...]:
        """Those of the members that are not silent, as far as this machine can tell.

        Not among them: those ahead of it in the rank whose silence made it the broker, and whom
        the membership suspects, unless they were heard of within `silence_s`.
        """
        return tuple(
            peer
            for name, peer in self._peers.items()
            if name == self._name
            or self._speaks(name, now_s)
            or (name not in self._watched and name not in self._suspects)
        )

    @property
    def candidates(self) -> tuple[str, ...]:
        """The candidates, the best first."""
        return self._rank[:CANDIDATES_MAX]

    # --- what it is told -------------------------------------------------------------------------

    def peers_changed(self, peers: Iterable[BrokerCandidate], now: Instant) -> list[Effect]:
        """Replace the members of the cluster: all that are not dead."""
        before, now_s = self._peers, now.steady_s
        self._known = ranking(self.cluster, tuple(peers))
        self._suspects = {
            name: None
            for name, peer in self._peers.items()
            if peer.is_suspect and name != self._name
        }
        self._rank = self._known.names
        self._heard_s = {
            name: heard_s for name, heard_s in self._heard_s.items() if name in self._peers
        }
        new = [name for name in self._suspects if name not in before]
        self._heard_s.update(dict.fromkeys(new, now_s))
        self._claims = {name: said for name, said in self._claims.items() if name in self._peers}
        self._untold = {name: times for name, times in self._untold.items() if name in self._peers}
        self._reconsider(now)
        if not self._pinned and self._rank and self.broker != self._rank[0] and not self.is_broker:
            self._suspicion_of(self._rank[0], now)
        return self._drain(now)

    def receive(self, sender: str, message: ToSuccession, now: Instant) -> list[Effect]:
        """Handle a message of another machine."""
        self._heard_s[sender] = now.steady_s
        match message:
            case AskBroker():
                self._untold.pop(sender, None)
                self._send(sender, self._answer())
            case BrokerIs(broker, term):
                self._claim(sender, broker, term, now)
            case Heard(term):
                self._claim(sender, sender, term, now)
        self._reconsider(now)
        return self._drain(now)

    def posted(self, sender: str, now: Instant) -> list[Effect]:
        """Note that `sender` addressed this machine as the broker; correct it if it is not."""
        self._heard_s[sender] = now.steady_s
        self._untold.pop(sender, None)
        if not self.is_broker:
            self._send(sender, self._answer())
        return self._drain(now)

    def suspect(self, now: Instant) -> list[Effect]:
        """Doubt the broker, which acknowledges nothing, and ask the candidates."""
        if not self._pinned and not self.is_broker and self._doubts_s is None:
            self._doubts_s = now.steady_s
            self._ask([self.broker, *self.candidates])
        return self._drain(now)

    def handle(self, event: Wake | LinkUp | LinkDown, now: Instant) -> list[Effect]:
        """Handle the alarm, or a change of a link."""
        if isinstance(event, Wake):
            self._beat(now)
        elif isinstance(event, LinkDown) and event.machine == self.broker:
            return self.suspect(now)
        return self._drain(now)

    # --- who is it -------------------------------------------------------------------------------

    def _reconsider(self, now: Instant) -> None:
        """Choose the broker to follow from rank, claims and silence."""
        if self._pinned:
            return
        now_s = now.steady_s
        if self._suspects:
            self._rank = tuple(name for name in self._known.names if self._may_be(name, now_s))
        if not self._rank:  # nobody may be: each works for itself
            if self._may_lead:
                self._follow(self._name, now)
        elif self._is_candidate:
            self._watch(now_s)
            acting = next((name for name in self._watched if self._speaks(name, now_s)), self._name)
            self._follow(acting, now)
        else:
            self._watched = {}
            fresh = [name for name in self._claims if self._claims_now(name, now_s)]
            if fresh:
                self._follow(min(fresh, key=self._place), now)
            elif self.is_broker or self.broker not in self._peers:
                self._follow(self._rank[0], now)

    def _watch(self, now_s: float) -> None:
        """Watch the machines ahead in the rank; a new one counts as heard now."""
        before = self._watched
        self._watched = dict.fromkeys(self._rank[: self._rank.index(self._name)])
        for name in self._watched:
            if name not in before:
                self._heard_s[name] = now_s

    def _may_be(self, name: str, now_s: float) -> bool:
        """Return whether `name` may be broker: not suspected, or heard of lately."""
        return name not in self._suspects or self._speaks(name, now_s)

    @property
    def _is_candidate(self) -> bool:
        return self._name in self.candidates

    def _speaks(self, name: str, now_s: float) -> bool:
        return now_s - self._heard_s.get(name, -inf) < self._silence_s

    def _claims_now(self, name: str, now_s: float) -> bool:
        said = self._claims.get(name)
        return said is not None and now_s - said[0] < self._silence_s and name in self._known.places

    def _claim(self, sender: str, broker: str, term: float, now: Instant) -> None:
        if self._pinned:
            if sender == self.broker:
                self.term = term
            return
        if broker != sender:
            self._claims.pop(sender, None)
            if broker in self._peers and broker != self._name and self._doubts_s is not None:
                self._ask([broker])
            elif sender == self.broker:
                self._suspicion_of(broker, now)
            return
        self._claims[sender] = (now.steady_s, term)
        if sender == self.broker:
            self.term = term
            self._doubts_s = None
        elif not self.is_broker:
            self._suspicion_of(sender, now)
        elif self._place(self._name) < self._place(sender):
            self._untold[sender] = 0  # not at once: it may think the same of itself

    def _suspicion_of(self, other: str, now: Instant) -> None:
        """Doubt the broker, because `other` may be it, and ask both."""
        if self._doubts_s is None:
            self._doubts_s = now.steady_s
            self._ask([self.broker, other])

    def _place(self, name: str) -> int:
        return self._known.places.get(name, len(self._known.names))

    def _follow(self, broker: str, now: Instant) -> None:
        if broker == self.broker and (self.term or not self.is_broker):
            return
        was_broker, self.broker = self.is_broker and self.term > 0.0, broker
        if self.is_broker:
            self.begin(now)
        else:
            if was_broker:  # whoever follows this machine learns it at once
                for name in self._peers:
                    self._send(name, BrokerIs(broker))
            self._untold.clear()
            self.term = self._claims.get(broker, (0.0, 0.0))[1]
            if not self._claims_now(broker, now.steady_s):
                self._doubts_s = now.steady_s
                self._ask([broker])

    def begin(self, now: Instant) -> None:
        """Begin a term of this machine as the broker, which knows nothing yet."""
        self.term = max(now.steady_s, self.term + 1e-6)
        self._doubts_s = None
        self._untold = dict.fromkeys((name for name in self._peers if name != self._name), 0)
        self._announce()

    # --- what it says ----------------------------------------------------------------------------

    def _answer(self) -> BrokerIs:
        return BrokerIs(self.broker, self.term)

    def _send(self, machine: str, message: ToSuccession) -> None:
        if machine != self._name:
            self._effects.append(Send(machine, Part.SUCCESSION, message))

    def _ask(self, machines: Iterable[str]) -> None:
        for machine in dict.fromkeys(machines):
            self._send(machine, AskBroker())

    def _announce(self) -> None:
        """Announce this broker to all that have not shown that they know it."""
        for machine, times in list(self._untold.items()):
            self._send(machine, self._answer())
            self._untold[machine] = times + 1
            if times + 1 >= TOLD_MAX:
                del self._untold[machine]

    def _beat(self, now: Instant) -> None:
        """Do the periodic work: reconsider, announce, ask."""
        planned_s, self._beat_s = self._beat_s, None
        if planned_s is not None and now.steady_s - planned_s > self._silence_s:
            self._slept(now)
        self._reconsider(now)
        self._announce()
        asked = [] if self._doubts_s is None else [self.broker, *self.candidates]
        self._ask([*asked, *self._watched])

    def _slept(self, now: Instant) -> None:
        """Restart all silences after a time in which this machine did not run."""
        self._heard_s = dict.fromkeys(self._heard_s, now.steady_s)
        self._claims.clear()
        if self.is_broker:
            self.begin(now)

    def _drain(self, now: Instant) -> list[Effect]:
        is_busy = self._untold or self._doubts_s is not None or self._is_candidate
        if is_busy and not self._pinned and len(self._peers) > 1 and self._beat_s is None:
            self._beat_s = now.steady_s + self._silence_s / QUESTIONS
            self._effects.append(WakeAt(Part.SUCCESSION, self._beat_s))
        effects, self._effects = self._effects, []
        return effects
