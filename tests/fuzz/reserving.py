"""Messages about reservations that a member could mean: what random values hardly ever are.

Bookings that fit, further versions of them, what frees them, and answers about those of others.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from iriai.sim.world.clock import WALL_S

LENGTHS_S = (59.0, 60.0, 600.0, 3600.0, 86_400.0, 31 * 86_400.0, 32 * 86_400.0)
AHEAD_S = (-601.0, -60.0, 0.0, 0.0, 5.0, 600.0, 3600.0, 86_400.0)
VERSIONS = (0, 1, 1, 1, 2, 2, 3, 4, 2**53)
PHASES = (1, 1, 2, 2, 3)
_numbers = count(1)
"""Of proposals: one that is not higher than the last is not heard."""
REASON = {"rule": "not-reserved", "needed": "it", "had": "none", "machine": "take"}


def plausible(rng: Random) -> list[Any]:
    """A part, the tag of a message to it, and its fields."""
    part, tag, make = rng.choice(_MAKERS)
    return [part, tag, make(rng)]


def _own(rng: Random) -> list[Any]:
    return ["take", rng.choice((1, 1, 1, 2, 3, 1 << 40))]


def _others(rng: Random) -> list[Any]:
    return ["ume", rng.choice((1, 1, 2, 3))]


def _resources(rng: Random) -> Any:
    if rng.random() < 0.1:
        return None
    return {"cpus": rng.choice((0, 1, 1, 1, 2, 6, 7))}


def _span(rng: Random) -> dict[str, Any]:
    start_s = WALL_S + 1020.0 + rng.choice(AHEAD_S)
    return {"start_wall_s": start_s, "end_wall_s": start_s + rng.choice(LENGTHS_S)}


def _book(rng: Random) -> dict[str, Any]:
    version = rng.choice(VERSIONS)
    booking = {
        "reservation": _own(rng),
        "version": version,
        "account": ["lab", rng.choice(("ann", "bob", "eve"))],
        "resources": _resources(rng),
        "user": rng.choice(("ann", "bob", "eve", "")),
        "phase": rng.choice(PHASES),
        **_span(rng),
    }
    if rng.random() < 0.1:
        booking["later"] = {"version": version + 1, **_span(rng)}
    return {"booking": booking, "hold_s": rng.choice((1.0, 600.0)), "is_later": rng.random() < 0.5}


def _unbook(rng: Random) -> dict[str, Any]:
    freed = {"version": rng.choice(VERSIONS), "first": rng.choice((0, 0, 0, 1, 2, 3))}
    return {"reservation": _own(rng), **freed, "is_no_show": rng.random() < 0.5}


def _seek(rng: Random) -> dict[str, Any]:
    terms = {"account": ["lab", "eve"], "user": "eve", "nodes": rng.choice((1, 1, 2)), **_span(rng)}
    terms |= {"resources": _resources(rng), "is_earliest": rng.random() < 0.3}
    kept = rng.choice(([], ["ume"], ["take", "ume"]))
    return {
        "reservation": _own(rng),
        "version": rng.choice(VERSIONS),
        "terms": terms,
        "kept": kept,
        "without": rng.choice(([], ["ume"])),
    }


def _booked(rng: Random) -> dict[str, Any]:
    said = {"reservation": _others(rng), "version": rng.choice(VERSIONS), "machine": "take"}
    return said | {"phase": rng.choice(PHASES), "unable": rng.choice((None, REASON))}


def _not_booked(rng: Random) -> dict[str, Any]:
    said = {"reservation": _others(rng), "version": rng.choice(VERSIONS), "machine": "take"}
    return said | {"reason": REASON}


def _offered(rng: Random) -> dict[str, Any]:
    machines = rng.choice(([], ["ume"], ["take"], ["ume", "ume"], ["ume", "take"]))
    said = {"reservation": _others(rng), "version": rng.choice(VERSIONS), "machines": machines}
    return said | {"start_wall_s": WALL_S + 1020.0 + rng.choice(AHEAD_S)}


def _propose(rng: Random) -> dict[str, Any]:
    actions = ("hold", "release", "modify", "requeue", "end", "suspend", "unsuspend")
    job, index = rng.choice(((1, 0), (2, 1), (2, 3), (3, 1), (3, 20), (9, 0)))
    attempt = rng.choice((None, ["ume", job, index, 1]))
    values = rng.choice(({}, {"urgency": 5.0}, {"queue": 1}, {"queue": 63}, {"comment": "x" * 256}))
    return {
        "job": ["ume", job],
        "term": 1.0,
        "number": next(_numbers),
        "policy": "Night",
        "action": rng.choice(actions),
        "attempt": attempt,
        "changes": values,
        "is_operators": rng.random() < 0.3,
    }


_MAKERS = (
    ("node", "Book", _book),
    ("node", "Book", _book),
    ("node", "Unbook", _unbook),
    ("broker", "SeekNodes", _seek),
    ("home", "Booked", _booked),
    ("home", "NotBooked", _not_booked),
    ("home", "NodesOffered", _offered),
    ("home", "Propose", _propose),
)
