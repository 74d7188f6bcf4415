"""One entrance and what is fed to it; what it may answer, and what counts as a find."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

SLOW_S = 0.1
"""Of processor time: one input that keeps a turn busy for so long is a find."""
ENDLESS_S = 5.0
"""Of processor time: no input is fed for longer."""
INPUT_BYTES_MAX = 16 << 20
"""No entrance that strangers or members reach reads a longer frame: what was multiplied to more is
cut."""
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
        content = content[:INPUT_BYTES_MAX]
        self.fed += 1
        took_s = self._took_s(content)
        if SLOW_S < took_s < ENDLESS_S:
            took_s = self._took_s(content)
        if took_s > SLOW_S:
            self.finds.append(Find(self.name, f"it took {took_s:.2f} s", content))

    def _took_s(self, content: bytes) -> float:
        began_s = time.thread_time()
        try:
            with _not_endless():
                self.feed(content)
        except _EndlessError:
            return max(ENDLESS_S, time.thread_time() - began_s)
        except Exception:  # noqa: BLE001 - whatever it is, it is a find
            self.finds.append(Find(self.name, traceback.format_exc(limit=-3), content))
        return time.thread_time() - began_s


class _EndlessError(BaseException):
    """One input takes more than anybody waits for."""


def _give_up(*_: object) -> None:
    raise _EndlessError


@contextmanager
def _not_endless() -> Iterator[None]:
    """Raise where the processor works for too long; what is compiled has to look at signals."""
    before = signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
