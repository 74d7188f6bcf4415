"""Mendings of what a decoder or core takes in, each taken out; the fuzzer has to find each.

`python -m tests.fuzz.mutants` takes out these and those of a real daemon (`live_mutants`), one
after the other, and prints after how many seconds each was found; a few minutes in all. With
words, only those whose names begin with one of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from iriai.broker.intake.reports import ClaimedUse
from iriai.classad import parser
from iriai.model import name_pattern
from iriai.protocol.messages.scheduling import Counted, End, Message, Renew
from iriai.wire import codec, greetings, links, parts
from tests.fuzz import messages, texts
from tests.fuzz.entrance import Entrance, Find
from tests.fuzz.unbounded import Unbounded
from tests.support.people import temporary_people

Patch = Callable[[pytest.MonkeyPatch], None]
_TEXTS = texts.entrances()
INPUTS = 60_000
"""Within which a mutant has to be found: less than a minute."""


class Mutant(NamedTuple):
    """One mending taken out, and where that shows."""

    entrance: str
    patch: Patch


def _nested(module: Any) -> Patch:
    """Decoders of a module raise Python's own error for values that are nested too deeply."""

    def decoded(decoder: Any, content: bytes) -> Any:
        try:
            return decoder.decode(content)
        except (UnicodeDecodeError, MemoryError, OverflowError):
            raise msgspec.DecodeError("malformed") from None

    return _of(module, "decoded", decoded)


def _without_bounds(kind: type[Message]) -> Patch:
    """A message whose fields are of their types, whatever their bounds are."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(parts._decoders, kind, Unbounded(kind))  # type: ignore[arg-type]

    return patch


def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the decoder nor the broker looks at what is counted: either of them holds alone."""
    _without_bounds(Counted)(monkeypatch)
    monkeypatch.setattr(ClaimedUse, "refuses", lambda *_: False)


def _of(module: Any, name: str, value: object) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


IN_PROCESS: dict[str, Mutant] = {
    "T3a: nested values in requests": Mutant("requests", _nested(codec)),
    "T3b: nested values in greetings": Mutant("greetings", _nested(greetings)),
    "T3c: nested values in frames of links": Mutant("link frames", _nested(links)),
    "T3d: nested values in messages of members": Mutant("messages to cores", _nested(parts)),
    "T3a: nested values in messages to the launcher": Mutant(
        "launcher messages", _nested(messages)
    ),
    "T3e: numbers of any length": Mutant("expressions", _of(parser, "INTEGER_DIGITS", 1 << 40)),
    "T3f: clocks of any kind in Renew": Mutant("messages to cores", _without_bounds(Renew)),
    "T3g: use and charges of any size in End": Mutant("messages to cores", _without_bounds(End)),
    "T3h: charges of any kind in Counted": Mutant("messages to cores", _counted),
    "T9b: patterns of any length": Mutant(
        "patterns", _of(name_pattern, "PATTERN_LENGTH_MAX", 1 << 40)
    ),
}
"""By the threat of docs/spec/010 that is back."""


@contextmanager
def mutated(name: str) -> Iterator[Entrance]:
    """The entrance of a mutant, made while its mending is out."""
    mutant = IN_PROCESS[name]
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutant.patch(monkeypatch)
        made = [*messages.entrances(), *_TEXTS]
        found = next(each for each in made if each.name == mutant.entrance)
        yield replace(found, finds=[], fed=0)


def first_find(entrance: Entrance, seed: str, inputs: int = INPUTS) -> Find | None:
    """The first of so many inputs that does what none may; None: all did well."""
    rng = Random(seed)
    for _ in range(inputs):
        entrance.feed_one(entrance.make(rng))
        if entrance.finds:
            return entrance.finds[0]
    return None


def _found_in_process(name: str) -> str:
    with mutated(name) as entrance:
        find = first_find(entrance, f"mutant-{name}")
    return find.what.strip().splitlines()[-1] if find else ""


def main(words: list[str]) -> int:
    """Print a table of all mutants, or of those named; 1 where one was not found."""
    from tests.fuzz import live_mutants  # that takes long

    missed = 0
    with temporary_people() as people:
        finders = dict.fromkeys(IN_PROCESS, _found_in_process) | dict.fromkeys(
            live_mutants.LIVE, lambda name: "; ".join(live_mutants.complaints(people, name))
        )
        for name, find in sorted(finders.items()):
            if words and not name.startswith(tuple(words)):
                continue
            began_s = time.monotonic()
            found = find(name)
            missed += not found
            took_s = time.monotonic() - began_s
            print(f"{took_s:6.1f} s  {name:48}  {found[:90] or 'NOT FOUND'}", flush=True)
    print("all were found" if not missed else f"{missed} were not found")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
