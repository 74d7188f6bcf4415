"""The entry table of a machine: verified entries, the latest of each key, within their lifetime.

Input: entries from others with their age, and this machine's own. Output: what changed, for those
who exchange entries and those who read them (spec 006, section 1). It holds what concerns its own
cluster of the site, and of the others who their gateways are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from iriai.model.instant import Instant
from iriai.protocol.directory.checks import SIGNATURES, Checks
from iriai.protocol.directory.digest import Digest
from iriai.protocol.directory.validation import certificate_in, complaint, read_gateway, read_member
from iriai.protocol.messages.candidates import first_of
from iriai.protocol.messages.entries import (
    BY_OPERATORS,
    OUTLIVES_ITS_MACHINE,
    SITE_WIDE,
    Carried,
    DigestRow,
    Entry,
    EntryKey,
    EntryKind,
    Verifier,
    signed_content,
)
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.misbehaviour import Incidents

MACHINES_MAX = 2_000
"""Of the own cluster: four times the largest, some 14 MB; the rest is a flood (spec 006, 4)."""
CLUSTERS_MAX = 100
"""Clusters of a site, with gateways here: 100 of 500 are 50,000 machines."""
GATEWAYS_MAX = 8
"""Of one cluster: three at a time, and some that were within the last hour. Some 2 kB each."""
USAGES_MAX = 2 * CLUSTERS_MAX
"""Entries with the usage of a cluster: of each its present first gateway, and an earlier one."""
AHEAD_S_MAX = 86_400.0
"""How far an incarnation may be ahead of our wall clock: it begins as the seconds of its machine's,
and is raised by less than one a second. A clock that is further off keeps a machine out; one that
lies so would keep its own name, or one whose key it has, from being heard for as long."""
WRONG = frozenset({"forged-document", "bad-certificate", "forged-entry"})
"""Codes of entries that were expensive to check and that honest machines rarely send."""
USUAL = frozenset({"unknown-signer", "many-signatures"})
"""Codes that also occur without misbehaviour."""
CHANGES_KEYS = BY_OPERATORS | {EntryKind.CERTIFICATE}
"""Kinds whose entries may make other signatures valid."""
STALE_ENDS = 4
"""Ends kept in the queue for each entry before it is rebuilt."""


class MergeResult(StrEnum):
    """The result for a received entry."""

    NEW = "new"
    KNOWN = "known"
    """The same or a later entry is or was held."""
    REFUSED = "refused"


class _Held(NamedTuple):
    entry: Entry
    row: DigestRow
    published_s: float
    """On this machine's steady clock."""

    @property
    def over_s(self) -> float:
        """The end of its lifetime, on this machine's steady clock."""
        return self.published_s + self.entry.lifetime_s if self.entry.lifetime_s else inf


class EntryTable:
    """The verified entries of a machine."""

    def __init__(
        self, own: str, site: str, verifier: Verifier, notices: Incidents, *, cluster: str = ""
    ) -> None:
        """`own` is the name of this machine, `site` that of all that have its authority.

        `cluster` is its part of the site; empty: called as the site.
        """
        self.digest = Digest()
        """The digest of all entries."""
        self.site_digest = Digest()
        """The digest of those that concern all clusters."""
        self.checks = Checks()
        """Limits on signature checks, by sender."""
        self._own = own
        self._site = site
        self._cluster = cluster or site
        self._verifier = verifier
        self._incidents = notices
        self._held: dict[EntryKey, _Held] = {}
        self._machines: dict[str, int] = {}
        """The number of entries of each machine of the own cluster."""
        self._gateways: dict[str, dict[str, Member]] = {}
        """The gateways of each cluster, by machine."""
        self._usages = 0
        self._over: dict[EntryKey, tuple[DigestRow, float]] = {}
        """Expired entries, and until when each is remembered."""
        self._ends: list[tuple[float, EntryKey]] = []
        self._changed: dict[EntryKey, Entry | None] = {}
        self._echoes: list[Entry] = []
        self._incarnation_max = inf
        """The highest accepted incarnation, as of the last event."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Entry]:
        return (held.entry for held in self._held.values())

    def get(self, key: EntryKey) -> Entry | None:
        """Return the entry of a key; None if there is none."""
        held = self._held.get(key)
        return held.entry if held else None

    def carried(self, key: EntryKey, now: Instant) -> Carried | None:
        """Return the entry of a key with its age; None if there is none."""
        held = self._held.get(key)
        return Carried(held.entry, now.steady_s - held.published_s) if held else None

    def is_new(self, row: DigestRow) -> bool:
        """Return whether the entry that `row` names would be new here, and acceptable."""
        if row.incarnation > self._incarnation_max:
            return False
        over = self._over.get(row.key)
        if over is not None and row.order <= over[0].order:
            return False
        return self.digest.is_news(row)

    def merge(self, carried: Carried, sender: str, now: Instant) -> MergeResult:
        """Store an entry of another machine if it is later than the held one and valid."""
        code, words = complaint(carried)
        if code:
            return self._refuse(code, sender, words)
        entry = carried.entry
        if entry.cluster != (self._site if entry.kind in SITE_WIDE else self._cluster):
            return MergeResult.KNOWN  # it concerns nobody here
        row = entry.row
        self._incarnation_max = now.wall_s + AHEAD_S_MAX
        if row.incarnation > self._incarnation_max:
            return self._refuse_ahead(entry, sender, now)
        if not self.is_new(row):
            return MergeResult.KNOWN
        if entry.lifetime_s and carried.age_s >= entry.lifetime_s:
            return MergeResult.KNOWN
        words = self._excess(entry)
        if words:
            words += f", which is the limit; {entry.machine} is one more"
            return self._refuse("too-many-machines", sender, words)
        code, words = self._check(entry, sender, now)
        if code:
            return self._refuse(code, sender, words, is_usual=code in USUAL)
        self._watch_for_twins(row, entry)
        if entry.machine == self._own and entry.kind not in BY_OPERATORS:
            self._echoes.append(entry)
            if entry.key in self._held:
                return MergeResult.KNOWN  # only we replace what we published; and we will
        if entry.kind is EntryKind.GATEWAY and self._is_lesser_gateway(entry):
            self._remember(entry, now)
            return MergeResult.KNOWN
        self.put(entry, now, carried.age_s)
        return MergeResult.NEW

    def put(self, entry: Entry, now: Instant, age_s: float = 0.0) -> None:
        """Store a verified entry: this machine's own, or a merged one."""
        key, row = entry.key, entry.row
        if key == (self._own, EntryKind.CERTIFICATE):  # it verifies what we published earlier
            self._verifier.introduce(self._own, entry.body)
        held, before = _Held(entry, row, now.steady_s - age_s), self._held.get(key)
        self._over.pop(key, None)
        self.digest.put(row)
        if key.kind in SITE_WIDE:
            self.site_digest.put(row)
        elif before is None:
            self._machines[key.machine] = self._machines.get(key.machine, 0) + 1
        self._held[key] = held
        if key.kind is EntryKind.USAGE:
            self._usages += before is None
        elif key.kind is EntryKind.GATEWAY:
            if before is not None:
                self._remove_gateway(before.entry)
            self._put_gateway(read_gateway(entry).member, now)
        self._end_at(held.over_s, key)
        self._changed[key] = entry
        if key.kind is EntryKind.MEMBER and read_member(entry).state is MemberState.LEFT:
            self._drop_departed(key.machine, now)

    @property
    def next_end_s(self) -> float:
        """When the next lifetime may end; infinite if none does."""
        return self._ends[0][0] if self._ends else inf

    def expire(self, now: Instant) -> None:
        """Drop expired entries, and memories of expired entries that are old enough."""
        self._incarnation_max = now.wall_s + AHEAD_S_MAX
        while self._ends and self._ends[0][0] <= now.steady_s:
            _, key = heappop(self._ends)
            held, over = self._held.get(key), self._over.get(key)
            if held is not None and held.over_s <= now.steady_s:
                self._drop(key, now)
            elif over is not None and over[1] <= now.steady_s:
                del self._over[key]

    def drain_changes(self) -> tuple[list[Entry], list[EntryKey]]:
        """Return (new entries, dropped keys) since the last call."""
        if not self._changed:
            return [], []
        changed, self._changed = self._changed, {}
        came = [entry for entry in changed.values() if entry is not None]
        return came, [key for key, entry in changed.items() if entry is None]

    def drain_echoes(self) -> list[Entry]:
        """Return entries of this machine's name that it did not publish, since the last call."""
        echoes, self._echoes = self._echoes, []
        return echoes

    def merge_all(self, entries: Iterable[Carried], sender: str, now: Instant) -> None:
        """Merge entries, certificates first: they verify the others.

        An empty `sender` means the entries that this machine held before it restarted.
        """
        for carried in sorted(entries, key=lambda c: c.entry.kind != EntryKind.CERTIFICATE):
            self.merge(carried, sender, now)

    def adopt(self, other: EntryTable) -> None:
        """Hold all that another table holds, which has verified it, and goes by the same clock.

        What is held here must be in it. For worlds of hundreds of machines, which would else
        verify for minutes.
        """
        self._changed.update(
            (key, held.entry) for key, held in other._held.items() if key not in self._held
        )
        self._held = dict(other._held)
        self._machines = dict(other._machines)
        self._gateways = {cluster: dict(its) for cluster, its in other._gateways.items()}
        self._usages = other._usages
        self._ends = list(other._ends)
        self.digest = other.digest.copy()
        self.site_digest = other.site_digest.copy()

    # --- judging ---------------------------------------------------------------------------------

    def _check(self, entry: Entry, sender: str, now: Instant) -> tuple[str, str]:
        """Check the signatures of an entry of `sender`; return (code, words) of what is wrong."""
        checks, now_s = self.checks, now.steady_s
        code, words = checks.known_wrong(entry)
        if code:
            return code, words
        if checks.is_blocked(sender, now_s):
            return "shunned", "it sent too many wrong signatures; not checked"
        if not checks.may_check(sender, now_s, SIGNATURES.get(entry.kind, 1)):
            return "many-signatures", "more signatures than are checked in a second; dropped"
        code, words = self._unproven(entry)
        if code in WRONG and not self._verifier.is_ejected(entry.machine):
            checks.note_wrong_entry(sender, entry, (code, words), now_s)
        elif not code and entry.kind in CHANGES_KEYS:
            checks.forget_wrong()
        return code, words

    def _unproven(self, entry: Entry) -> tuple[str, str]:
        verifier = self._verifier
        if entry.kind in BY_OPERATORS:
            words = verifier.check_document(entry)
            return ("forged-document", f"'{entry.kind}': {words}") if words else ("", "")
        if certificate := certificate_in(entry):
            words = verifier.introduce(entry.machine, certificate)
            if words:
                return "bad-certificate", f"of {entry.machine}: {words}"
        if not verifier.knows(entry.machine):
            return "unknown-signer", f"no certificate of {entry.machine} is known here yet"
        if not verifier.verify(entry.machine, signed_content(entry), entry.signature):
            words = f"'{entry.kind}' of {entry.machine} without its signature"
            return "forged-entry", words
        return "", ""

    def _refuse(self, code: str, sender: str, words: str, *, is_usual: bool = False) -> MergeResult:
        self._incidents.note(code, sender, words, is_usual=is_usual)
        return MergeResult.REFUSED

    def _refuse_ahead(self, entry: Entry, sender: str, now: Instant) -> MergeResult:
        if sender != entry.machine:
            return MergeResult.REFUSED  # of whom it is was not proved; it is no other's fault
        ahead_s = entry.incarnation - now.wall_s
        words = f"an incarnation {ahead_s:.0f} s ahead of this machine's clock; the limit is "
        words += f"{AHEAD_S_MAX:.0f}: its clock is wrong, or ours, or the statement is false"
        return self._refuse("incarnation-ahead", sender, words)

    def _watch_for_twins(self, row: DigestRow, entry: Entry) -> None:
        held = self._held.get(entry.key)
        if held is None or held.row.order[:2] != row.order[:2]:
            return
        if entry.kind in BY_OPERATORS:
            words = f"two documents '{entry.kind}' have the number {entry.version}"
            self._incidents.note("two-documents-one-number", entry.machine, words)
        else:
            words = f"two different entries of {entry.machine} have one version"
            self._incidents.note("two-machines-one-name", entry.machine, words)

    def _excess(self, entry: Entry) -> str:
        """Return why there is no room for an entry of a new machine; empty: there is.

        An ejection is never turned away: whoever fills tables is who is to be ejected.
        """
        if entry.kind in BY_OPERATORS:
            return ""
        if entry.kind is EntryKind.USAGE:
            is_full = entry.key not in self._held and self._usages >= USAGES_MAX
            return f"the usage that {USAGES_MAX} gateways sum up is known" if is_full else ""
        if entry.kind is not EntryKind.GATEWAY:
            is_known = entry.machine in self._machines
            is_full = not is_known and len(self._machines) >= MACHINES_MAX
            return f"{MACHINES_MAX} machines are known" if is_full else ""
        is_known = read_gateway(entry).member.cluster_called in self._gateways
        is_full = not is_known and len(self._gateways) >= CLUSTERS_MAX
        return f"gateways of {CLUSTERS_MAX} clusters are known" if is_full else ""

    def _is_lesser_gateway(self, entry: Entry) -> bool:
        """Return whether a cluster has as many gateways already that come before this one.

        All keep the same: the first of the rank among those that published themselves.
        """
        member = read_gateway(entry).member
        its = self._gateways.get(member.cluster_called, {}) | {entry.machine: member}
        return entry.machine not in first_of(member.cluster_called, its.values(), GATEWAYS_MAX)

    # --- dropping --------------------------------------------------------------------------------

    def _drop_departed(self, machine: str, now: Instant) -> None:
        """Drop the entries of a machine that left, except those that outlive it."""
        for kind in EntryKind:
            if kind not in OUTLIVES_ITS_MACHINE and EntryKey(machine, kind) in self._held:
                self._drop(EntryKey(machine, kind), now)

    def _drop(self, key: EntryKey, now: Instant) -> None:
        held = self._held.pop(key)
        if key.kind in SITE_WIDE:
            self.site_digest.drop(key)
        else:
            self._machines[key.machine] -= 1
            if not self._machines[key.machine]:
                del self._machines[key.machine]
        if key.kind is EntryKind.USAGE:
            self._usages -= 1
        elif key.kind is EntryKind.GATEWAY:
            self._remove_gateway(held.entry)
        self.digest.drop(key)
        self._remember(held.entry, now)
        self._changed[key] = None

    def _remember(self, entry: Entry, now: Instant) -> None:
        """Remember the stamp of an entry that is not held, so that it is not wanted again."""
        until_s = now.steady_s + entry.lifetime_s
        self._over[entry.key] = (entry.row, until_s)
        self._end_at(until_s, entry.key)

    def _put_gateway(self, member: Member, now: Instant) -> None:
        """Note a new entry of a gateway; drop the last of its cluster if there are too many."""
        its = self._gateways.setdefault(member.cluster_called, {})
        its[member.name] = member
        kept = first_of(member.cluster_called, its.values(), GATEWAYS_MAX)
        for name in [each for each in its if each not in kept]:
            self._drop(EntryKey(name, EntryKind.GATEWAY), now)

    def _remove_gateway(self, entry: Entry) -> None:
        cluster = read_gateway(entry).member.cluster_called
        del self._gateways[cluster][entry.machine]
        if not self._gateways[cluster]:
            del self._gateways[cluster]

    def _end_at(self, end_s: float, key: EntryKey) -> None:
        if end_s == inf:
            return
        heappush(self._ends, (end_s, key))
        if len(self._ends) > STALE_ENDS * (len(self._held) + len(self._over)):
            # Entries that were replaced leave their ends behind, and some live for months.
            self._ends = [(held.over_s, key) for key, held in self._held.items()]
            self._ends += [(until_s, key) for key, (_, until_s) in self._over.items()]
            heapify(self._ends)
