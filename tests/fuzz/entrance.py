"""One entrance and what is fed to it; what it may answer, and what counts as a find."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

SLOW_S = 0.1
"""Of processor time: one input that keeps a turn busy for so long is a find."""
FINDS_MAX = 5
"""Of one entrance: more of them say little more."""


class Find(NamedTuple):
    """An input that did what no input may."""

    entrance: str
    what: str
    content: bytes


@dataclass
class Entrance:
    """A way in; `feed` raises what is no honest refusal."""

    number: str
    """As in docs/spec/010, section 2."""
    name: str
    make: Callable[[Random], bytes]
    """One input."""
    feed: Callable[[bytes], None]
    modules: tuple[str, ...] = ()
    """Whose branches are counted."""
    finds: list[Find] = field(default_factory=list)
    fed: int = 0

    def run(self, rng: Random, inputs: int, until_s: float = float("inf")) -> None:
        """Feed so many inputs, or until a moment on the monotonic clock."""
        for _ in range(inputs):
            if len(self.finds) >= FINDS_MAX or time.monotonic() > until_s:
                return
            self.feed_one(self.make(rng))

    def feed_one(self, content: bytes) -> None:
        """Feed one input and note what it did; one that took long has to take long again."""
        self.fed += 1
        if self._took_s(content) > SLOW_S and (again_s := self._took_s(content)) > SLOW_S:
            self.finds.append(Find(self.name, f"it took {again_s:.2f} s", content))

    def _took_s(self, content: bytes) -> float:
        began_s = time.thread_time()
        try:
            self.feed(content)
        except Exception:  # noqa: BLE001 - whatever it is, it is a find
            self.finds.append(Find(self.name, traceback.format_exc(limit=-3), content))
        return time.thread_time() - began_s
