"""Limits of doubts: relayed doubts are signed, and refuted ones count against their author.

A doubt is void once the doubted machine has published a later incarnation, with its own signature.
An honest machine is wrong now and then, where messages are lost; one that is wrong again and again
is not believed for a while (spec 006, section 3).
"""

from __future__ import annotations

import msgspec

from iriai.protocol.directory.checks import Checks
from iriai.protocol.messages.entries import Signer, Verifier
from iriai.protocol.messages.gossip import Doubt
from iriai.protocol.misbehaviour import Incidents, RateLimit

REFUTED_MAX = 30
"""Doubts of one machine that were refuted within `REFUTED_WINDOW_S`, before nobody believes it.
Where a tenth of all messages is lost an honest one has about six."""
REFUTED_WINDOW_S = 600.0

_CONTEXT = b"iriai doubt 1\0"
"""Before everything that is signed: no signature for another purpose can be taken for one of a
doubt."""
_encode = msgspec.msgpack.Encoder().encode


def signed_content(doubt: Doubt) -> bytes:
    """Return the signed bytes of a doubt: all but its signature."""
    return _CONTEXT + _encode(msgspec.structs.astuple(doubt)[:-1])


class Doubts:
    """This machine's doubts, and whether those of others are believed."""

    def __init__(
        self,
        own: str,
        signer: Signer,
        verifier: Verifier,
        notices: Incidents,
        checks: Checks,
    ) -> None:
        """`own` is this machine's name; `checks` counts signatures by who sent them."""
        self._own = own
        self._signer = signer
        self._verifier = verifier
        self._incidents = notices
        self._checks = checks
        self._refuted = RateLimit(REFUTED_MAX, REFUTED_WINDOW_S)
        self._unbelieved: dict[str, float] = {}
        """Machines whose doubts are ignored, and until when, on the steady clock."""

    def own(self, machine: str, incarnation: int, *, is_dead: bool) -> Doubt:
        """Return a signed doubt of this machine, for others to pass on."""
        doubt = Doubt(machine, incarnation, is_dead, self._own)
        return msgspec.structs.replace(doubt, signature=self._signer.sign(signed_content(doubt)))

    def is_believed(self, doubt: Doubt, sender: str, now_s: float) -> bool:
        """Return whether a doubt sent by `sender` is authentic and its author is believed."""
        if doubt.by == self._own or self._unbelieved.get(doubt.by, now_s) > now_s:
            return False
        if not self._verifier.knows(doubt.by) or not self._checks.may_check(sender, now_s):
            return False
        if self._verifier.verify(doubt.by, signed_content(doubt), doubt.signature):
            return True
        if self._verifier.is_ejected(doubt.by):
            return False
        self._checks.note_wrong(sender, now_s)
        words = f"a doubt of {doubt.machine} in the name of {doubt.by}, without its signature"
        self._incidents.note("forged-doubt", sender, words)
        return False

    def refuted(self, by: str, machine: str, now_s: float) -> None:
        """Count a doubt of `by` that `machine` has refuted."""
        if by == self._own or self._refuted.takes(by, now_s):
            return
        self._unbelieved[by] = now_s + REFUTED_WINDOW_S
        words = f"{REFUTED_MAX} of its doubts were refuted, that of {machine} last; others follow "
        words += f"none of it for {REFUTED_WINDOW_S:.0f} s"
        self._incidents.note("refuted-doubts", by, words)
