"""Small mistakes in how output comes to its home; each is found from a seed.

What is not here cannot be found, because it does no harm: a request that is not repeated when a
link is back is repeated within a quarter of a minute.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from iriai.home.output_copies import CopyKey, OutputCopies
from iriai.node.output_source import OutputSource
from tests.mutants.mutants import Patch, around, instead


def _wherever_it_begins(whole: Any, copies: Any, sender: str, output: Any, now_s: float) -> Any:
    copy = copies._copies.get(CopyKey(output.attempt, output.kind))
    if copy is not None:
        output = replace(output, offset=copy.size_bytes)
    return whole(copies, sender, output, now_s)


def _without_bound(whole: Any, source: Any, ask: Any, now_s: float) -> Any:
    sends = whole(source, ask, now_s)
    asked = source._asked.get(ask.attempt.home, {}).get((ask.attempt, ask.kind))
    if asked is not None:
        asked.until = 1 << 40
    return sends


def _only_of_running(whole: Any, copies: Any, attempt: Any, machine: str, now_s: float) -> Any:
    return whole(copies, attempt, machine, now_s) if copies._is_running(attempt) else []


def _without_a_word(whole: Any, copies: Any, key: Any, offset: int) -> Any:
    return whole(copies, key, offset)[0], ""


OUTPUT: dict[str, tuple[Patch, int]] = {
    "a piece is stored wherever it begins": (
        around(OutputCopies, "receive", _wherever_it_begins),
        1,
    ),
    "what was not answered is not asked again": (
        instead(OutputCopies, "next_s", lambda _: None),
        1,
    ),
    "a machine tells the end while a task runs": (
        around(OutputSource, "__init__", lambda whole, *args: whole(*args[:3], lambda _: False)),
        1,
    ),
    "a machine sends more than it may": (around(OutputSource, "ask", _without_bound), 1),
    "output of what is over is not fetched": (around(OutputCopies, "begin", _only_of_running), 1),
    "what is lost is told as all": (around(OutputCopies, "state", _without_a_word), 1),
}
"""With each a seed that found it when this was written."""
