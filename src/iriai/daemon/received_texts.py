"""Environments, scripts and inputs that came with tasks of others, while claims need them."""

from __future__ import annotations

from iriai.daemon.engine import Engine
from iriai.daemon.payloads import digest_of
from iriai.model.instant import Instant

TEXTS_BYTES_MAX = 96 << 20
"""Of one sender: three times what it counts on at a time (`link.TEXTS_BYTES_MAX`), for claims that
keep theirs."""


class ReceivedTexts:
    """By the machine that sent them and their digest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._texts: dict[str, dict[str, bytes]] = {}
        self._fresh: dict[str, dict[str, None]] = {}
        """That came since some of the same sender were last dropped."""

    def get(self, digest: str) -> bytes:
        """A text; raises KeyError."""
        for texts in self._texts.values():
            if digest in texts:
                return texts[digest]
        raise KeyError(digest)

    def take(self, sender: str, texts: tuple[tuple[str, bytes], ...], *, forget: bool) -> None:
        """These came; with `forget` the sender counts on none that came before.

        Raises ValueError where a text is not what it is called, or there are too many.
        """
        if any(digest_of(text) != digest for digest, text in texts):
            raise ValueError("a text that is not what it is called")
        if forget:
            self.forget(sender)
        held = self._texts.setdefault(sender, {})
        held.update(texts)
        if sum(map(len, held.values())) > TEXTS_BYTES_MAX:
            raise ValueError(f"more than {TEXTS_BYTES_MAX >> 20} MiB of texts")
        self._fresh.setdefault(sender, {}).update((digest, None) for digest, _ in texts)

    def forget(self, sender: str) -> None:
        """Keep of a sender's texts those of claims, and those that come from here on.

        Within a turn, since before it the node has not seen what arrived just now.
        """
        self._fresh[sender] = {}
        self._engine.request(lambda now: self._drop(sender, now))

    def _drop(self, sender: str, _now: Instant) -> None:
        kept = {
            digest: None
            for spec in self._engine.machine.node.specs()
            for digest in (spec.environment, spec.script, spec.stdin)
        } | self._fresh.get(sender, {})
        texts = self._texts.get(sender, {})
        self._texts[sender] = {digest: text for digest, text in texts.items() if digest in kept}
        if not self._texts[sender]:
            del self._texts[sender]
