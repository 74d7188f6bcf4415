"""Where machines of other clusters are: those that this machine has to do with.

Membership knows the own cluster, and the gateways of others. A home that another cluster's broker
sends to a machine there asks that broker how it is reached, and if it gets no answer the gateways
of all clusters. What it learns is signed by the machine itself, and kept for as many as talk to
each other at a time (spec 006, section 9).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from iriai.model.instant import Instant
from iriai.protocol.directory.checks import Checks
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.directory.validation import complaint, read_member
from iriai.protocol.membership.gateways import Gateways
from iriai.protocol.messages.effects import Effect, Part, Send
from iriai.protocol.messages.entries import (
    Carried,
    Entry,
    EntryKey,
    EntryKind,
    Verifier,
    signed_content,
)
from iriai.protocol.messages.gossip import Locate, Located
from iriai.protocol.messages.members import Member, MemberState
from iriai.protocol.misbehaviour import Incidents

CONTACTS_MAX = 1_024
"""Machines of other clusters that are remembered, some 2 kB each."""
ASKED_MAX = 256
"""Machines that are sought at a time."""
ASK_S = 1.0
"""The least between two questions about one machine."""
ANSWER_S = 30.0
"""How long an answer is awaited."""
HINTS_MAX = 1_024
"""Machines for which it is remembered who spoke of them."""
RELAYS_TOLD = 3
"""Relays in an answer about a machine that accepts no connections: it keeps links to two."""
ENTRIES_MAX = 2 * (1 + RELAYS_TOLD)
SIGNATURES = 4
"""Checked for one machine: of its entry, and of its chain of certificates."""
_OF_CONTACT = (EntryKind.CERTIFICATE, EntryKind.MEMBER)


class Locator:
    """Finds machines of other clusters. Times are those of the steady clock."""

    def __init__(
        self, own: Member, verifier: Verifier, checks: Checks, incidents: Incidents
    ) -> None:
        """`checks` counts signatures by who sent them."""
        self._site = own.cluster
        self._cluster = own.cluster_called
        self._verifier = verifier
        self._checks = checks
        self._incidents = incidents
        self._found: OrderedDict[str, Entry] = OrderedDict()
        self._asked: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """When each machine was asked for last, and how often."""
        self._hints: OrderedDict[str, str] = OrderedDict()

    def contact(self, machine: str) -> Member | None:
        """Return a machine of another cluster as it was found; None if it was not."""
        entry = self._found.get(machine)
        return read_member(entry) if entry is not None else None

    def hint(self, machine: str, knows: str) -> None:
        """Note that another machine spoke of this one, and knows where it is."""
        self._hints[machine] = knows
        self._hints.move_to_end(machine)
        if len(self._hints) > HINTS_MAX:
            self._hints.popitem(last=False)

    def locate(
        self, machine: str, gateways: Gateways, now: Instant, *, is_everywhere: bool = False
    ) -> list[Effect]:
        """Ask where a machine is: who spoke of it, afterwards a gateway of each cluster.

        `is_everywhere`: ask all gateways, since an answer is not awaited for long.
        """
        asked_s, times = self._asked.get(machine, (-ASK_S, 0))
        if now.steady_s - asked_s < ASK_S:
            return []
        self._asked[machine] = (now.steady_s, times + 1)
        self._asked.move_to_end(machine)
        if len(self._asked) > ASKED_MAX:
            self._asked.popitem(last=False)
        hint = self._hints.get(machine)
        if is_everywhere:
            told = list(gateways.others)
        elif hint is not None and not times:
            told = [hint]
        else:
            of_each = (gateways.of(cluster) for cluster in gateways.clusters)
            told = [names[times % len(names)] for names in of_each]
        return [Send(name, Part.DIRECTORY, Locate(machine)) for name in told if name != machine]

    def answer(
        self, asker: str, machine: str, relays: Sequence[str], table: EntryTable, now: Instant
    ) -> list[Effect]:
        """Tell who asks where a machine of this cluster is; `relays` are its own, best first."""
        entries: list[Carried] = []
        for name in (machine, *relays[:RELAYS_TOLD]):
            of_one = [table.carried(EntryKey(name, kind), now) for kind in _OF_CONTACT]
            entries += [each for each in of_one if each is not None]
        return [Send(asker, Part.DIRECTORY, Located(tuple(entries)))] if entries else []

    def located(self, sender: str, message: Located, now: Instant) -> list[Member]:
        """Take what was asked for, or what `sender` says of itself; return what is new.

        The relays that are told with a machine that was asked for are taken as well.
        """
        news: list[Member] = []
        certificates: dict[str, bytes] = {}
        is_asked = False
        for carried in message.entries[:ENTRIES_MAX]:
            entry = carried.entry
            code, words = complaint(carried)
            if code:
                self._incidents.note(code, sender, words)
            elif entry.kind is EntryKind.CERTIFICATE:
                certificates[entry.machine] = entry.body
                if self._is_asked(entry.machine, now):  # its name is taken, even if it is away
                    self._introduce(entry.machine, entry.body, sender, now)
            elif entry.kind is EntryKind.MEMBER:
                is_asked |= self._is_asked(entry.machine, now)
                is_expected = is_asked or entry.machine == sender
                if is_expected and self._is_good(entry, certificates, sender, now):
                    news += self._keep(entry)
                    self._asked.pop(entry.machine, None)
        return news

    # --- within ----------------------------------------------------------------------------------

    def _introduce(self, machine: str, certificate: bytes, sender: str, now: Instant) -> None:
        """Learn the key of a machine that was asked for."""
        checks = self._checks
        if checks.is_blocked(sender, now.steady_s):
            return
        if checks.may_check(sender, now.steady_s, SIGNATURES - 1):
            self._verifier.introduce(machine, certificate)

    def _is_asked(self, machine: str, now: Instant) -> bool:
        asked = self._asked.get(machine)
        return asked is not None and now.steady_s - asked[0] < ANSWER_S

    def _is_good(
        self, entry: Entry, certificates: Mapping[str, bytes], sender: str, now: Instant
    ) -> bool:
        """Return whether a machine of another cluster of this site published this, and later."""
        known = self._found.get(entry.machine)
        if known is not None and known.row.order >= entry.row.order:
            return False
        member = read_member(entry)
        if member.cluster != self._site or member.cluster_called == self._cluster:
            return False
        if self._checks.is_blocked(sender, now.steady_s):
            return False
        if not self._checks.may_check(sender, now.steady_s, SIGNATURES):
            return False
        verifier, machine = self._verifier, entry.machine
        certificate = certificates.get(machine)
        words = verifier.introduce(machine, certificate) if certificate is not None else ""
        if not words and not verifier.knows(machine):
            words = "its certificate is missing"
        if not words and not verifier.verify(machine, signed_content(entry), entry.signature):
            words = "it did not sign it"
        if words and not verifier.is_ejected(machine):
            self._checks.note_wrong(sender, now.steady_s)
            self._incidents.note("forged-entry", sender, f"where {machine} is: {words}")
        return not words

    def _keep(self, entry: Entry) -> list[Member]:
        """Keep a contact; return it, and those that had to go for it, as members that left."""
        self._found[entry.machine] = entry
        self._found.move_to_end(entry.machine)
        news = [read_member(entry)]
        if len(self._found) > CONTACTS_MAX:
            _, oldest = self._found.popitem(last=False)
            news.append(replace(read_member(oldest), state=MemberState.LEFT))
        return news
