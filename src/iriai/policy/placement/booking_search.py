"""The first time at which so many machines can be booked together."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

Run = tuple[float, float]
"""A time in which a machine is free: its start, and its end."""


def earliest_of(
    names: list[str],
    nodes: int,
    run_from: Callable[[str, float], Run | None],
    length_s: float,
    from_s: float,
    latest_s: float,
) -> tuple[float, list[str]] | None:
    """Return the first start from `from_s` on at which `nodes` machines are free, and which.

    None: there is none, or it is later than `latest_s`. `names` come in the order in which they are
    preferred; `run_from` tells from when on and until when a machine is free next for `length_s`.
    """
    waiting: list[tuple[float, int, float]] = []
    """The next run of machines that are not free then: start, place in `names`, end."""
    at_once: list[str] = []
    for place, name in enumerate(names):
        run = run_from(name, from_s)
        if run is None or run[0] > latest_s:
            continue
        waiting.append((run[0], place, run[1]))
        if run[0] == from_s:
            at_once.append(name)
            if len(at_once) == nodes:
                return from_s, at_once
    heapify(waiting)
    free: list[tuple[float, int]] = []
    """Those that are free: end, place."""
    while waiting:
        start_s, place, until_s = heappop(waiting)
        heappush(free, (until_s, place))
        while free and free[0][0] < start_s + length_s:
            _, past = heappop(free)
            run = run_from(names[past], start_s)
            if run is not None and run[0] <= latest_s:
                heappush(waiting, (run[0], past, run[1]))
        if len(free) < nodes:
            continue
        if not waiting or waiting[0][0] > start_s:
            places = sorted(place for _, place in free)[:nodes]
            return start_s, [names[place] for place in places]
    return None
