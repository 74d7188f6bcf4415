"""Environments, scripts and inputs that came with tasks of other homes, while claims need them."""

from __future__ import annotations

from collections import Counter

from iriai.daemon.loop.engine import Engine
from iriai.model.instant import Instant
from iriai.model.text_digest import digest_of
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
        """Size of each sender's texts."""
        self._fresh: dict[str, dict[str, None]] = {}
        """Texts of each sender since some of it were last dropped."""

    def get(self, digest: str) -> bytes:
        """Return a text; raise KeyError if it is unknown."""
        for texts in self._texts.values():
            if digest in texts:
                return texts[digest]
        raise KeyError(digest)

    def receive(self, sender: str, texts: tuple[tuple[str, bytes], ...], *, forget: bool) -> None:
        """Keep texts; with `forget` the sender relies on none that came before.

        Raises:
            OutOfPlace: a text does not match its digest, or there are too many.
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
        """Drop a sender's texts except those of claims, and those that arrive from now on.

        Within a turn, because before it the node has not seen the latest messages.
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
