"""Push-pull anti-entropy of entries: digests first, then only what differs (spec 006).

Demers et al.: Epidemic Algorithms for Replicated Database Maintenance (PODC 1987), section 1.3:
what was learned lately is compared first, then one checksum of everything; only where that differs
more is compared (here: by buckets). Input: messages of other directories, the alarm, what the table
took. Output: messages. Which entries are good is the table's matter. Within a cluster all entries
are exchanged; between the gateways of clusters those that concern all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, log2
from random import Random
from typing import assert_never

from iriai.config.sections import GossipSection
from iriai.model.instant import Instant
from iriai.protocol.directory.digest import BUCKETS, Digest
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.publisher import Publisher
from iriai.protocol.directory.validation import read_member
from iriai.protocol.messages import gossip
from iriai.protocol.messages.effects import Effect, Part, Send, WakeAt
from iriai.protocol.messages.entries import (
    BY_OPERATORS,
    SITE_WIDE,
    Carried,
    DigestRow,
    Entry,
    EntryKey,
    EntryKind,
)
from iriai.protocol.messages.members import MemberState
from iriai.protocol.misbehaviour import PERIODS, Incidents, RateLimit
from iriai.protocol.sampling import some

ROWS_A_MESSAGE_MAX = 512
"""Some 15 kB."""
DETAILS_MAX = 8
"""Messages of rows in one exchange: all rows of the largest cluster in one or two."""
ENTRIES_BYTES_MAX = 256 << 10
"""Approximate limit on the bodies in a message; a larger body is sent alone."""
EXCHANGE_BYTES_MAX = 2 << 20
"""Limit on the bodies in one answer; the rest is sent in the next exchange."""
ENTRY_BYTES = 160
"""Approximate size of an entry without its body."""
MESSAGES_A_PERIOD_MAX = 20
"""From one machine: a newcomer that fetches a full table asks for it in some tens of messages."""
ASKED_BYTES_A_PERIOD_MAX = 2 << 20
"""Limit on the entries that one machine may request."""
URGENT_FANOUT = 3
"""To how many what is urgent is told at once; each of them does likewise: all know it in a second
or two, but for some of e^-3, which the next exchanges tell."""
LOST_EACH = 30
"""Each so many periods the exchange is with a machine that was forgotten, if there is one: halves
of a network that was parted for longer than a lifetime find each other again."""
OTHERS_EACH = 30
"""Periods between two exchanges of a gateway with one of another cluster, in turn."""
STRANGERS_EACH = 10
"""Periods between two exchanges of a gateway with one of its own cluster that it does not know as a
member: machines that came up apart from each other are to become one cluster."""
LOST_OTHERS_EACH = 10
"""Each so many of these exchanges is with a gateway that was forgotten, if there is one."""
OUTLINE_EACH = 4
"""Periods between two outlines: what changes meanwhile makes checksums differ for a moment."""
RIDE_PART = 0.5
"""Fraction of a period that an exchange waits for a machine that is probed anyway."""
LATELY_LEAST = 3
"""Periods for which anything is told as learned lately; log2 of the members is added. Of 500 one
in e^12 is not told in that time, and the checksums tell it. A period more costs every machine 27
bytes each way for each entry that anybody publishes."""


class Directory:
    """The directory of one machine: exchanges entries with its peers."""

    def __init__(
        self,
        publisher: Publisher,
        table: EntryTable,
        notices: Incidents,
        rng: Random,
        settings: GossipSection,
        seeds: Sequence[str] = (),
    ) -> None:
        """`seeds` are the machines through which this one joined."""
        self.partners: Sequence[str] = ()
        """Present members of the cluster that accept connections."""
        self.lost: Sequence[str] = ()
        """Machines that were forgotten and did not leave; they may be back."""
        self.near: Sequence[str] = ()
        """The gateways of the own cluster."""
        self.others: Sequence[str] = ()
        """Gateways of other clusters that accept connections."""
        self.lost_others: Sequence[str] = ()
        """Gateways of other clusters that were forgotten."""
        self._is_gateway = False
        self._others_round = 0
        """The round of the next exchange with another cluster."""
        self.rounds = 0
        """Exchanges started by this machine."""
        self._publisher = publisher
        self._table = table
        self._incidents = notices
        self._rng = rng
        self._settings = settings
        self._seeds = tuple(seeds)
        window_s = settings.period_s * PERIODS
        self._allowance = RateLimit(MESSAGES_A_PERIOD_MAX * PERIODS, window_s)
        self._bytes_allowance = RateLimit(ASKED_BYTES_A_PERIOD_MAX * PERIODS, window_s)
        self._lately: dict[EntryKey, int] = {}
        """Recently learned keys, with the number of periods for which each is still offered."""
        self._outline_due_s = -inf
        self._due_s = -inf
        """When the next exchange may begin with a machine that is probed anyway."""
        self._period_ends_s = -inf
        """When the next exchange begins with a random machine."""
        self._alarm_s = inf
        self._effects: list[Effect] = []

    @property
    def is_gateway(self) -> bool:
        """Whether this machine exchanges entries with other clusters."""
        return self._is_gateway

    @is_gateway.setter
    def is_gateway(self, is_gateway: bool) -> None:
        if is_gateway and not self._is_gateway:
            self._others_round = 0  # they are to hear of it
        self._is_gateway = is_gateway

    def handle(self, sender: str, message: gossip.ToDirectory | None, now: Instant) -> None:
        """Handle a message, or the alarm if it is None; `end_turn` returns the effects."""
        if message is None:
            self._alarm_s = inf
        elif self.takes(sender, now):
            self._receive(sender, message, now)
        self._poll_timers(now)

    def takes(self, sender: str, now: Instant) -> bool:
        """Return whether a machine may send one more message to the directory, and count it."""
        if self._allowance.takes(sender, now.steady_s):
            return True
        words = f"over {MESSAGES_A_PERIOD_MAX} messages a period to the directory; dropped"
        self._incidents.note("flood", sender, words)
        return False

    def changed(
        self, came: Iterable[Entry], gone: Iterable[EntryKey], sender: str, now: Instant
    ) -> None:
        """Note changes of the table; `sender` is the machine that sent them, empty if none did."""
        urgent = []
        for entry in came:
            self._lately[entry.key] = self._gossip_periods
            if _is_urgent(entry):
                urgent.append(entry.key)
        for key in gone:
            self._lately.pop(key, None)
        if urgent:
            others = [name for name in self._reachable if name != sender]
            told = some(others, URGENT_FANOUT, self._rng)
            for name in told:
                self._send_entries(name, urgent, now)
            site_wide = [key for key in urgent if key.kind in SITE_WIDE]
            if self.is_gateway and site_wide:
                others = [name for name in self.others if name != sender and name not in told]
                for name in some(others, URGENT_FANOUT, self._rng):
                    self._send_entries(name, site_wide, now)

    # --- an exchange -----------------------------------------------------------------------------

    def _receive(self, sender: str, message: gossip.ToDirectory, now: Instant) -> None:
        match message:
            case gossip.Offer():
                self._receive_offer(sender, message, now)
            case gossip.Counteroffer():
                self._answer_counteroffer(sender, message, now)
            case gossip.Wanted(rows):
                self._send_entries(sender, [row.key for row in rows[:ROWS_A_MESSAGE_MAX]], now)
            case gossip.Entries(entries):
                self._table.merge_all(entries, sender, now)
            case gossip.Outline():
                self._answer_outline(sender, message)
            case gossip.Detail():
                self._answer_detail(sender, message, now)
            case gossip.Locate() | gossip.Located():
                pass  # not of entries that are held; see `cluster.locator`
            case _:
                assert_never(message)

    def _receive_offer(self, sender: str, offer: gossip.Offer, now: Instant) -> None:
        own = self._publisher.member
        if (offer.cluster_name or own.cluster) == own.cluster_called:
            self._answer_offer(sender, offer, is_site=False)
        elif offer.is_site:
            self._answer_offer(sender, offer, is_site=True)
        else:  # this machine was of that cluster once, or is said to be
            departure = Carried(self._publisher.departure(offer.cluster_name), 0.0)
            self._send(sender, gossip.Entries((departure,)))

    def _answer_offer(self, sender: str, offer: gossip.Offer, *, is_site: bool) -> None:
        digest = self._digest(is_site=is_site)
        wanted = self._wanted(offer.lately, is_site=is_site)
        named = {row.key: row for row in offer.lately}
        lately = [row for row in self._lately_rows(is_site=is_site) if _is_later(row, named)]
        if not (wanted or lately) and offer.checksum == digest.checksum:
            return  # both hold the same
        checksum = digest.checksum_with(wanted)
        answer = gossip.Counteroffer(checksum, tuple(lately), tuple(wanted), is_site)
        self._send(sender, answer)

    def _answer_counteroffer(self, sender: str, message: gossip.Counteroffer, now: Instant) -> None:
        self._send_entries(sender, [row.key for row in message.wanted], now)
        wanted = self._wanted(message.lately, is_site=message.is_site)
        if wanted:
            self._send(sender, gossip.Wanted(tuple(wanted)))
        digest = self._digest(is_site=message.is_site)
        differs = digest.checksum_with(wanted) != message.checksum
        if differs and self._outline_due_s <= now.steady_s:
            self._outline_due_s = now.steady_s + OUTLINE_EACH * self._settings.period_s
            self._send(sender, gossip.Outline(tuple(digest.outline), message.is_site))

    def _answer_outline(self, sender: str, outline: gossip.Outline) -> None:
        checksums, is_site = outline.checksums, outline.is_site
        digest = self._digest(is_site=is_site)
        if len(checksums) != BUCKETS:
            words = f"an outline of {len(checksums)} buckets; there are {BUCKETS}"
            self._incidents.note("malformed-outline", sender, words)
            return
        buckets: list[int] = []
        rows: list[DigestRow] = []
        details = 0
        for bucket, (theirs, ours) in enumerate(zip(checksums, digest.outline, strict=True)):
            if theirs == ours:
                continue
            more = digest.rows(bucket)
            if buckets and len(rows) + len(more) > ROWS_A_MESSAGE_MAX:
                self._send(sender, gossip.Detail(tuple(buckets), tuple(rows), is_site))
                details += 1
                buckets, rows = [], []
                if details == DETAILS_MAX:
                    return
            buckets.append(bucket)
            rows += more
        if buckets:
            self._send(sender, gossip.Detail(tuple(buckets), tuple(rows), is_site))

    def _answer_detail(self, sender: str, detail: gossip.Detail, now: Instant) -> None:
        digest = self._digest(is_site=detail.is_site)
        wanted = self._wanted(detail.rows, is_site=detail.is_site)
        for start in range(0, len(wanted), ROWS_A_MESSAGE_MAX):
            self._send(sender, gossip.Wanted(tuple(wanted[start : start + ROWS_A_MESSAGE_MAX])))
        theirs = {row.key: row for row in detail.rows}
        lacked: list[EntryKey] = []
        for bucket in dict.fromkeys(detail.buckets):
            rows = digest.rows(bucket) if 0 <= bucket < BUCKETS else ()
            lacked += [row.key for row in rows if _is_later(row, theirs)]
        self._send_entries(sender, lacked, now)

    # --- what is sent ----------------------------------------------------------------------------

    def _digest(self, *, is_site: bool) -> Digest:
        """Return the digest of all entries, or of those that concern all clusters."""
        return self._table.site_digest if is_site else self._table.digest

    def _wanted(self, rows: Iterable[DigestRow], *, is_site: bool) -> list[DigestRow]:
        concern = (row for row in rows if not is_site or row.kind in SITE_WIDE)
        return [row for row in concern if self._table.is_new(row)]

    def _lately_rows(self, *, is_site: bool = False) -> list[DigestRow]:
        digest = self._digest(is_site=is_site)
        newest_first = reversed(self._lately)
        rows = (digest.row(key) for key in newest_first)
        return [row for row in rows if row is not None][:ROWS_A_MESSAGE_MAX]

    def _send_entries(self, machine: str, keys: Iterable[EntryKey], now: Instant) -> None:
        for batch in self._batches(machine, keys, now):
            self._send(machine, gossip.Entries(batch))

    def _batches(
        self, machine: str, keys: Iterable[EntryKey], now: Instant
    ) -> Iterator[tuple[Carried, ...]]:
        """Yield entries in batches of bounded size, within the limit of one exchange."""
        batch: list[Carried] = []
        batch_bytes = total_bytes = 0
        for key in keys:
            carried = self._table.carried(key, now)
            if carried is None:
                continue
            more = len(carried.entry.body) + ENTRY_BYTES
            total_bytes += more
            is_within = self._bytes_allowance.takes(machine, now.steady_s, more)
            if total_bytes > EXCHANGE_BYTES_MAX or not is_within:
                break
            if batch and batch_bytes + more > ENTRIES_BYTES_MAX:
                yield tuple(batch)
                batch, batch_bytes = [], 0
            batch.append(carried)
            batch_bytes += more
        if batch:
            yield tuple(batch)

    def _send(self, machine: str, message: gossip.ToDirectory) -> None:
        self._effects.append(Send(machine, Part.DIRECTORY, message))

    # --- time ------------------------------------------------------------------------------------

    def _poll_timers(self, now: Instant) -> None:
        self._table.expire(now)
        self._publisher.due(now)
        if self._period_ends_s <= now.steady_s:
            self._begin_exchange(now)

    def ride(self, machine: str, now: Instant) -> None:
        """This machine speaks to another one anyway: if an exchange is due, it is with that one.

        It then needs no link of its own, and what it is answered shows that both arrived. So it is
        with machines that only connect outwards, too, which are nobody's partners: one that is
        drawn instead is rarely spoken to otherwise, and would need a link for it.
        """
        if self._due_s <= now.steady_s and machine:
            self._begin_exchange(now, machine)
            self._period_ends_s += RIDE_PART * self._settings.period_s

    def _begin_exchange(self, now: Instant, beside: str = "") -> None:
        self.rounds += 1
        self._due_s = self._period_ends_s = now.steady_s + self._settings.period_s
        is_search = bool(self.lost) and self.rounds % LOST_EACH == 0
        drawn = some(self.lost if is_search else self._reachable, 1, self._rng)
        for name in [beside] if beside and not is_search else drawn:
            # A seed may be of another cluster: it tells at least who the gateways of this one are.
            is_seed = not self.partners and name not in (beside, *self.near, *self.lost)
            self._offer(name, is_site=is_seed)
        if self.is_gateway and self.rounds >= self._others_round:
            self._others_round = self.rounds + OTHERS_EACH
            self._offer_others()
        if self.is_gateway and self.rounds % STRANGERS_EACH == 0:
            strangers = [name for name in self.near if name not in self.partners]
            for name in some(strangers, 1, self._rng):
                self._offer(name)
        self._lately = {key: left - 1 for key, left in self._lately.items() if left > 1}

    def _offer_others(self) -> None:
        """Exchange what concerns all clusters with a gateway of another one."""
        is_search = self.rounds // OTHERS_EACH % LOST_OTHERS_EACH == 0
        found = self.lost_others if self.lost_others and is_search else self.others
        for name in some(found or self.lost_others, 1, self._rng):
            self._offer(name, is_site=True)

    def _offer(self, machine: str, *, is_site: bool = False) -> None:
        # A seed is told all of them: it may be of the own cluster.
        rows = tuple(self._lately_rows(is_site=is_site and bool(self.partners)))
        checksum = self._digest(is_site=is_site).checksum
        cluster_name = self._publisher.member.cluster_name
        self._send(machine, gossip.Offer(checksum, rows, cluster_name, is_site))

    @property
    def _reachable(self) -> Sequence[str]:
        return self.partners or (*self.near, *self._seeds)

    @property
    def _gossip_periods(self) -> int:
        return LATELY_LEAST + int(log2(len(self.partners) + 1))

    def end_turn(self, now: Instant) -> list[Effect]:
        """Return the messages to send, and the alarm if it has changed."""
        effects, self._effects = self._effects, []
        times = (self._period_ends_s, self._table.next_end_s, self._publisher.next_s)
        alarm_s = max(min(times), now.steady_s)
        if alarm_s != self._alarm_s:
            self._alarm_s = alarm_s
            effects.append(WakeAt(Part.DIRECTORY, alarm_s))
        return effects


def _is_later(row: DigestRow, others: Mapping[EntryKey, DigestRow]) -> bool:
    other = others.get(row.key)
    return other is None or row.order > other.order


def _is_urgent(entry: Entry) -> bool:
    """Return whether an entry is sent at once rather than at the next exchange."""
    if entry.kind is EntryKind.MEMBER:
        return read_member(entry).state is MemberState.LEFT
    return entry.kind in BY_OPERATORS
