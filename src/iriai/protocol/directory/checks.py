"""Limits on signature checks per peer, and the penalty for wrong ones.

Checking a signature takes thousands of times as long as sending one. So each peer has so many
checked a second, what was found to be wrong is not checked again, and who sends more wrong ones
than an honest machine can is not heard for a while, and told to the driver, which ends the link
(spec 006, section 4). Honest machines pass on what they have verified. What they took for right may
be wrong here where two machines have one name, or where an ejection is not known to both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b

from iriai.policy.service.token_bucket import Rate, TokenBuckets
from iriai.protocol.messages.effects import PeerBlocked
from iriai.protocol.messages.entries import Entry, EntryKind

CHECKED = Rate(per_s=400.0, burst=8_000.0)
"""Signatures of what one peer sends: a full table of the largest cluster at once, some seconds of
work, which is done in slices."""
WRONG = Rate(per_s=0.5, burst=50.0)
"""Wrong ones: of two machines with one name others publish some each minute."""
BLOCKED_S = 60.0
"""How long the entries of a peer that sent more wrong ones are ignored."""
SIGNATURES: Mapping[EntryKind, int] = {
    EntryKind.CERTIFICATE: 3,
    EntryKind.CONFIGURATION: 4,
    EntryKind.ROSTER: 8,
    EntryKind.EJECT: 4,
    EntryKind.GATEWAY: 4,
    EntryKind.USAGE: 4,
}
"""Signatures checked for an entry of a kind, if more than one: those of a chain of certificates."""
WRONG_KEPT_MAX = 4096
"""Wrong entries whose digests are kept."""


class Checks:
    """Limits on signature checks. A peer without a name is this machine itself, without limit."""

    def __init__(self) -> None:
        self._checked: TokenBuckets[str] = TokenBuckets(CHECKED)
        self._wrong: TokenBuckets[str] = TokenBuckets(WRONG)
        self._known: OrderedDict[bytes, tuple[str, str]] = OrderedDict()
        self._until_s: dict[str, float] = {}
        self._blocked: list[PeerBlocked] = []

    def may_check(self, sender: str, now_s: float, signatures: int = 1) -> bool:
        """Return whether so many signatures of `sender` may be checked now, and count them."""
        return not sender or self._checked.consume(sender, now_s, signatures)

    def is_blocked(self, sender: str, now_s: float) -> bool:
        """Return whether `sender` is blocked."""
        return self._until_s.get(sender, now_s) > now_s

    def known_wrong(self, entry: Entry) -> tuple[str, str]:
        """Return (code, words) of what is known to be wrong with this entry; else empty."""
        return self._known.get(_digest_of(entry), ("", ""))

    def forget_wrong(self) -> None:
        """Forget all wrong entries: a new key or operator may make them right."""
        self._known.clear()

    def note_wrong_entry(
        self, sender: str, entry: Entry, found: tuple[str, str], now_s: float
    ) -> None:
        """Note that an entry of `sender` is wrong; `found` is (code, words)."""
        self._known[_digest_of(entry)] = found
        if len(self._known) > WRONG_KEPT_MAX:
            self._known.popitem(last=False)
        self.note_wrong(sender, now_s)

    def note_wrong(self, sender: str, now_s: float) -> None:
        """Count a wrong signature of `sender`; block it if there were too many."""
        if not sender or self._wrong.consume(sender, now_s) or self.is_blocked(sender, now_s):
            return
        self._until_s = {who: s for who, s in self._until_s.items() if s > now_s}
        self._until_s[sender] = now_s + BLOCKED_S
        words = f"it sent more than {WRONG.burst:.0f} wrong signatures"
        self._blocked.append(PeerBlocked(sender, words, BLOCKED_S))

    def drain_blocked(self) -> list[PeerBlocked]:
        """Return the peers blocked since the last call."""
        blocked, self._blocked = self._blocked, []
        return blocked


def _digest_of(entry: Entry) -> bytes:
    said = (entry.machine, entry.kind, entry.incarnation, entry.version, entry.lifetime_s)
    digest = blake2b(repr(said).encode(), digest_size=16)
    digest.update(entry.signature)
    digest.update(entry.body)
    return digest.digest()
