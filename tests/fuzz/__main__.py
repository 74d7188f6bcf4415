"""`python -m tests.fuzz`, or `make fuzz`: feed all entrances, for a time or a number of inputs.

Without options these are a million inputs, at least 20,000 for each entrance, in some 25 minutes.
Printed are the seed, and for each entrance inputs, branches that they reach, and finds; of a real
daemon ends, tracebacks, turns over 100 ms, and memory that did not come back. JSON is last.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from random import Random

from tests.fuzz import live, messages, texts
from tests.fuzz.coverage import measured
from tests.fuzz.entrance import Entrance, Find

INPUTS = 50_000
LIVE_INPUTS = 20_000
"""A real daemon takes some hundred a second."""
COVERED_INPUTS = 500
"""Of each entrance fed once more, slower, while branches are counted."""


def all_entrances() -> list[Entrance]:
    """Of every kind."""
    return [*messages.entrances(), *texts.entrances()]


def show(entrance: Entrance, covered: str, took_s: float) -> None:
    """A line for a person."""
    finds = f"  {len(entrance.finds)} FINDS" if entrance.finds else ""
    rate = entrance.fed / max(took_s, 1e-9)
    print(
        f"{entrance.number:4} {entrance.name:24} {entrance.fed:9,} inputs  {rate:8,.0f}/s"
        f"  branches {covered:>5}{finds}",
        file=sys.stderr,
        flush=True,
    )


def show_find(find: Find) -> None:
    """All that is needed to look into it."""
    print(f"--- {find.entrance}: {find.content[:200]!r}\n{find.what}", file=sys.stderr)


def main() -> int:
    """Feed all, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="for each entrance")
    parser.add_argument(
        "--live-inputs",
        type=int,
        help="for each of a real daemon; else as many, but 20,000 at most",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="in all, at most")
    parser.add_argument("--entrance", action="append", help="its number or name; repeatable")
    parser.add_argument("--seed", type=int, default=None, help="repeats a run")
    parser.add_argument("--no-live", action="store_true", help="without real daemons")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # of a journal's torn tails, fifty thousand
    seed = given.seed if given.seed is not None else int(time.time())
    print(f"seed {seed}", file=sys.stderr)
    until_s = time.monotonic() + given.seconds
    rows, finds = [], []
    wanted = set(given.entrance or ())
    for entrance in all_entrances():
        if wanted and not wanted & {entrance.number, entrance.name}:
            continue
        began_s = time.monotonic()
        entrance.run(Random(f"{seed}-{entrance.name}"), given.inputs, until_s)
        took_s = time.monotonic() - began_s
        covered = measured(entrance, Random(f"{seed}-covered"), COVERED_INPUTS)
        show(entrance, f"{covered:.0f} %", took_s)
        finds += entrance.finds
        rows.append(
            {
                "number": entrance.number,
                "name": entrance.name,
                "inputs": entrance.fed,
                "branches_percent": round(covered, 1),
                "finds": len(entrance.finds),
            }
        )
    watched = None
    if not given.no_live:
        live_inputs = given.live_inputs or min(given.inputs, LIVE_INPUTS)
        watched = live.run(live_inputs, seed, until_s, wanted)
        rows += watched.pop("rows")
    for find in finds:
        show_find(find)
    result = {
        "seed": seed,
        "inputs": sum(row["inputs"] for row in rows),
        "finds": len(finds),
        "watched": watched,
        "entrances": rows,
    }
    print(json.dumps(result))
    return 1 if finds or (watched and live.is_bad(watched)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
