"""Environments, scripts and inputs that came with tasks of other homes, while claims need them."""

from __future__ import annotations

from collections import Counter

from iriai.daemon.loop.engine import Engine
from iriai.daemon.payloads.payload_store import digest_of
from iriai.model.instant import Instant
from iriai.wire.links import OutOfPlace

TEXTS_BYTES_MAX = 96 << 20
"""Of one sender: three times what it counts on at a time (`link.TEXTS_BYTES_MAX`), for claims that
keep theirs."""
IN_ALL_BYTES_MAX = 512 << 20
"""Of all senders; beyond that none may have more than an equal share of it."""
TEXT_BYTES = 256
"""Of a text that is kept, beside what is in it, about."""


class RemotePayloads:
    """Received texts, by the machine that sent them and their digest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._texts: dict[str, dict[str, bytes]] = {}
        self._bytes: Counter[str] = Counter()
        """What each sender's come to."""
        self._fresh: dict[str, dict[str, None]] = {}
        """That came since some of the same sender were last dropped."""

    def get(self, digest: str) -> bytes:
        """A text; raises KeyError."""
        for texts in self._texts.values():
            if digest in texts:
                return texts[digest]
        raise KeyError(digest)

    def receive(self, sender: str, texts: tuple[tuple[str, bytes], ...], *, forget: bool) -> None:
        """These came; with `forget` the sender counts on none that came before.

        Raises `OutOfPlace` where a text is not what it is called, or there are too many.
        """
        if any(digest_of(text) != digest for digest, text in texts):
            raise OutOfPlace("a text that does not match its digest")
        if forget:
            self.forget(sender)
        if not texts:
            return  # a link that ends for its texts brings none
        held = self._texts.setdefault(sender, {})
        for digest, text in texts:
            if digest not in held:
                held[digest] = text
                self._bytes[sender] += len(text) + TEXT_BYTES
        self._fresh.setdefault(sender, {}).update((digest, None) for digest, _ in texts)
        most = TEXTS_BYTES_MAX
        if self._bytes.total() > IN_ALL_BYTES_MAX:
            most = min(most, IN_ALL_BYTES_MAX // len(self._texts))
        if self._bytes[sender] > most:
            self.forget(sender)
            raise OutOfPlace(f"more than {most >> 20} MiB of texts")

    def forget(self, sender: str) -> None:
        """Keep of a sender's texts those of claims, and those that come from here on.

        Within a turn, since before it the node has not seen what arrived just now.
        """
        if sender not in self._texts:
            return
        self._fresh[sender] = {}
        self._engine.request(lambda now: self._drop(sender, now))

    def _drop(self, sender: str, _now: Instant) -> None:
        kept = {
            digest: None
            for spec in self._engine.machine.node.specs()
            for digest in (spec.environment, spec.script, spec.stdin)
        } | self._fresh.get(sender, {})
        texts = self._texts.pop(sender, {})
        left = {digest: text for digest, text in texts.items() if digest in kept}
        self._bytes[sender] = sum(map(len, left.values())) + TEXT_BYTES * len(left)
        if left:
            self._texts[sender] = left
        else:
            del self._bytes[sender]
            self._fresh.pop(sender, None)
