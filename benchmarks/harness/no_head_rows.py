"""The rows of `no_head.py`: what is compared, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from experiments.no_head import PAPER, Variant

CLUSTER_MACHINES = 500
"""The largest cluster that there is; from twice as many machines up there are several."""
WARM_S, WINDOW_S = 300.0, 1200.0
"""Machines begin as busy as they stay; four of nine begin a task in the window."""
LARGE_FROM = 1_000
"""So many take a second of a processor for a few of the window's, and give as many tasks."""
LARGE_WARM_S, LARGE_WINDOW_S = 60.0, 600.0
SAMPLED_FROM = 10_000
"""Of so many machines the gossip of one cluster is run, which takes half of all time else."""


class Row(NamedTuple):
    """Some seeds of one setting."""

    name: str
    setting: Variant
    seeds: int = 1
    base: str = ""
    """The row to which its utilisation is compared, beside the oracle."""


def of_size(machines: int, homes: int) -> Variant:
    """30 to 60 minute tasks, as much as the machines can do."""
    cluster = CLUSTER_MACHINES if machines >= 2 * CLUSTER_MACHINES else 0
    setting = Variant(machines, homes, cluster, warm_s=WARM_S, window_s=WINDOW_S)
    if machines >= LARGE_FROM:
        setting = replace(setting, warm_s=LARGE_WARM_S, window_s=LARGE_WINDOW_S)
    return replace(setting, gossiping=1 if machines >= SAMPLED_FROM else None)


def saturated(machines: int, run_s: float, window_s: float) -> Variant:
    """Tasks that all take as long, more than can be done."""
    setting = of_size(machines, machines)
    tasks = replace(setting, shortest_s=run_s, longest_s=run_s, is_saturated=True)
    return replace(tasks, warm_s=window_s / 5.0, window_s=window_s)


def _named(machines: int, homes: int) -> str:
    return f"{machines} machines, {homes} {'home' if homes == 1 else 'homes'}"


def _sized(machines: int, seeds: int = 1, homes: Iterable[int] = (1, 8)) -> list[Row]:
    """A size with few homes, and with as many as machines."""
    return [
        Row(_named(machines, count), of_size(machines, count), seeds)
        for count in (machines, *homes)
    ]


def standard() -> list[Row]:
    """What fits into ten minutes; the longest first."""
    hundred, base = of_size(100, 100), _named(100, 100)
    dying = replace(hundred, loss=0.01, broker_dies_each_s=360.0)
    return [
        *_sized(1000, homes=()),
        Row("80 % load, 300 machines", replace(of_size(300, 300), load=0.8)),
        *_sized(100),
        Row("paper's delays, 100 machines", replace(hundred, delays=PAPER), base=base),
        Row("10 % loss, 100 machines", replace(hundred, loss=0.1), base=base),
        Row("brokers die, 1 % loss, 100 machines", dying, base=base),
        *_sized(30),
        *_sized(10, 3),
        Row("tasks of 10 s, 50 machines", saturated(50, 10.0, 300.0)),
        Row("tasks of 1 s, 20 machines", saturated(20, 1.0, 60.0)),
    ]


def large() -> list[Row]:
    """What takes hours, and 6 GB; the standard rows first."""
    busy = {count: replace(of_size(count, count), load=0.8) for count in (1000, 10_000)}
    return [
        *standard(),
        *(Row(_named(1000, homes), of_size(1000, homes)) for homes in (1, 8)),
        *(Row(f"80 % load, {count} machines", setting) for count, setting in busy.items()),
        *_sized(10_000),
        *_sized(100_000),
    ]


def quick() -> list[Row]:
    """One of each kind, in the small."""
    few = Variant(6, 6, warm_s=300.0, window_s=600.0)
    name = _named(6, 6)
    return [
        Row(name, few),
        Row("10 % loss, 6 machines", replace(few, loss=0.1), base=name),
        Row("one of two clusters gossips", replace(few, cluster_machines=3, gossiping=1)),
        Row("tasks of 1 s, 4 machines", saturated(4, 1.0, 10.0)),
    ]
