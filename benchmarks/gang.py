"""Gangs in time slices: how exactly eight back ends of one host switch, and what that costs.

Two gangs of a rank on each of eight launchers take turns of 1 s. Under `v2`, `v1` and `none`
(signals): `skew_p50_ms` and `skew_p99_ms` of a switch, from the first rank of the next gang that
goes on to the last one, by ranks that note the time each 0.5 ms; `idle_part` and `overlap_part` of
a slice in which on one back end neither rank ran, or both; `limit_skew_p99_ms` and its like: a bare
loop at real-time priority that writes to the same files, or sends the signals, in the same run. The
goal is a p99 of 5 ms, or of 1.5 times the limit's. `slowdown`: two gangs that compute, in slices,
against one after the other (goal: 1.03). `uncoordinated_ratio`: rounds of two gangs of two ranks,
each pinned to a processor of its own and exchanging a message each millisecond, with slices agreed
against phases at random (goal: 2). Needs root and a C compiler.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

from harness.gang_ranks import BackEnd, BareLoop, Rank, compile_rank, wait_until
from harness.options import Options
from harness.report import machine_facts, percentile
from harness.ways_to_freeze import FiguresOfWay, measure_ways

BACK_ENDS, QUICK_BACK_ENDS = 8, 2
QUANTUM_S = 1.0
SLICES, QUICK_SLICES = 40, 5
SETTLE_S = 2.0
"""Before the first switch that counts."""
WORK_S, QUICK_WORK_S = 8.0, 1.5
"""For which a gang computes where it is alone."""
PHASES, QUICK_PHASES = 8, 2
PHASE_S = 4.0
ROUND_S = 0.001
"""For which a rank computes between two messages."""
Gangs = list[list[Rank]]


def steady_s() -> float:
    """Return the clock by which slices are counted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Switches:
    """Of one way to switch, from what the ranks noted."""

    def __init__(self, gangs: Gangs, row_0_s: float, slices: int) -> None:
        self.skews_ms: list[float] = []
        idle_s, overlap_s = list[float](), list[float]()
        gaps = [[rank.notes.gaps() for rank in gang] for gang in gangs]
        for number in range(2, slices):
            due_s = row_0_s + number * QUANTUM_S
            begins = [_nearest([b for _, b in own], due_s) for own in gaps[number % 2]]
            ends = [_nearest([a for a, _ in own], due_s) for own in gaps[1 - number % 2]]
            self.skews_ms.append(1000 * (max(begins) - min(begins)))
            for begin_s, end_s in zip(begins, ends, strict=True):
                idle_s.append(max(0.0, begin_s - end_s))
                overlap_s.append(max(0.0, end_s - begin_s))
        self.idle_part = statistics.mean(idle_s) / QUANTUM_S
        self.overlap_part = statistics.mean(overlap_s) / QUANTUM_S


def _nearest(moments: list[float], due_s: float) -> float:
    found = min(moments, key=lambda each: abs(each - due_s), default=float("inf"))
    if abs(found - due_s) > QUANTUM_S / 2:
        raise RuntimeError(f"a rank has not followed the switch at {due_s:.3f}")
    return found


def order(gangs: Gangs, row_0_s: float, phases_s: tuple[float, ...] = ()) -> None:
    """Have gangs take turns on all their back ends; each may have a phase of its own."""
    ends = {rank.end: None for gang in gangs for rank in gang}
    for place, end in enumerate(ends):
        masks = {
            rank.attempt: 1 << row
            for row, gang in enumerate(gangs)
            for rank in gang
            if rank.end is end
        }
        end.order(masks, row_0_s + (phases_s[place] if phases_s else 0.0), QUANTUM_S)


def stop_turns(ends: list[BackEnd]) -> None:
    """Let everybody go on."""
    for end in ends:
        end.order({}, steady_s(), QUANTUM_S)
        end.settle()


def end_all(gangs: Gangs) -> None:
    """End all ranks."""
    for gang in gangs:
        for rank in gang:
            rank.end.cancel([rank])


def measure_skew(ends: list[BackEnd], options: Options, figures: FiguresOfWay) -> None:
    """Have two gangs take turns, by the launchers and by a bare loop."""
    slices = options.tasks(SLICES, QUICK_SLICES)
    gangs = [[end.start("note") for end in ends] for _ in range(2)]
    wait_until(lambda: all(rank.notes[1] for gang in gangs for rank in gang), "the ranks")
    row_0_s = steady_s() + SETTLE_S
    order(gangs, row_0_s - 4 * QUANTUM_S)
    time.sleep(SETTLE_S + (slices + 1) * QUANTUM_S)
    own = Switches(gangs, row_0_s, slices)
    bare = BareLoop(ends[0].kind, gangs)
    stop_turns(ends)
    row_0_s = steady_s() + SETTLE_S
    bare.run(row_0_s, QUANTUM_S, slices + 1)
    bare.close()
    limit = Switches(gangs, row_0_s, slices)
    end_all(gangs)
    for prefix, found in (("", own), ("limit_", limit)):
        figures.add(f"{prefix}skew_p50_ms", percentile(found.skews_ms, 50))
        figures.add(f"{prefix}skew_p99_ms", percentile(found.skews_ms, 99))
        figures.add(f"{prefix}idle_part", found.idle_part)
        figures.add(f"{prefix}overlap_part", found.overlap_part)


def until_ended(gangs: Gangs) -> float:
    """Return when the last rank has ended; with one gang left, nobody takes turns any more."""
    left = [list(gang) for gang in gangs]
    while len(left) > 1:
        left = [[rank for rank in gang if not rank.notes[0]] for gang in left]
        left = [gang for gang in left if gang]
        time.sleep(0.01)
    stop_turns([rank.end for rank in gangs[0]])
    for gang in gangs:
        for rank in gang:
            rank.end.lab.link.exit_of(rank.attempt)
    return max(rank.notes[0] for gang in gangs for rank in gang) / 1e9


def loops_for(end: BackEnd, work_s: float, parts: float) -> int:
    """Return how many loops a rank computes in so much time, if it has this part of the machine."""
    trial = 100_000_000
    rank = end.start("work", trial)
    end.lab.link.exit_of(rank.attempt)
    return int(trial * work_s * parts / ((rank.notes[0] - rank.notes[1]) / 1e9))


def measure_slowdown(ends: list[BackEnd], options: Options, figures: FiguresOfWay) -> None:
    """Have two gangs compute one after the other, and in slices."""
    work_s = QUICK_WORK_S if options.quick else WORK_S
    loops = loops_for(ends[0], work_s, min(1.0, machine_cpus() / len(ends)))
    alone_s = 0.0
    for _ in range(2):
        began_s = steady_s()
        gang = [end.start("work", loops) for end in ends]
        for rank in gang:
            rank.end.lab.link.exit_of(rank.attempt)
        alone_s += max(rank.notes[0] for rank in gang) / 1e9 - began_s
    began_s = steady_s()
    gangs = [[end.start("work", loops) for end in ends] for _ in range(2)]
    order(gangs, began_s)
    figures.add("slowdown", (until_ended(gangs) - began_s) / alone_s)


def machine_cpus() -> int:
    """Return how many processors there are."""
    facts = machine_facts(Path(tempfile.gettempdir()))
    return int(str(facts["cpus"]))


def rounds(gangs: Gangs, phases_s: tuple[float, ...]) -> int:
    """Return how many rounds both gangs make together in `PHASE_S`."""
    order(gangs, steady_s() - 4 * QUANTUM_S, phases_s)
    time.sleep(QUANTUM_S)
    before = sum(gang[0].notes[0] for gang in gangs)
    time.sleep(PHASE_S)
    return sum(gang[0].notes[0] for gang in gangs) - before


def measure_uncoordinated(ends: list[BackEnd], options: Options, figures: FiguresOfWay) -> None:
    """Have two gangs of two talk: in step, and with phases at random, evenly drawn."""
    pair, chance = ends[:2], random.Random(7)
    port = 20_000 + chance.randrange(10_000)  # below those that the kernel gives away
    loops = loops_for(pair[0], ROUND_S, 1.0)
    gangs = []
    for number in range(2):
        ports = port + 2 * number, port + 2 * number + 1
        words = [(ports[i], ports[1 - i], i, loops) for i in range(2)]
        gangs.append([end.start("talk", *own) for end, own in zip(pair, words, strict=True)])
    wait_until(lambda: all(rank.notes[0] > 1 for gang in gangs for rank in gang), "talk")
    phases = options.tasks(PHASES, QUICK_PHASES)
    agreed, others = list[int](), list[int]()
    for number in range(phases):
        phase_s = (number + chance.random()) / phases * 2 * QUANTUM_S
        agreed.append(rounds(gangs, (0.0, 0.0)))
        others.append(rounds(gangs, (0.0, phase_s)))
    stop_turns(pair)
    end_all(gangs)
    figures.add("uncoordinated_ratio", sum(agreed) / max(1, sum(others)))


def measure(kind: str, program: Path, options: Options, figures: FiguresOfWay) -> None:
    """Start the back ends, and measure everything in turn."""
    ends: list[BackEnd] = []
    try:
        for _ in range(options.tasks(BACK_ENDS, QUICK_BACK_ENDS)):
            ends.append(BackEnd(kind, program))  # noqa: PERF401  # what was made is closed
        measure_skew(ends, options, figures)
        measure_slowdown(ends, options, figures)
        measure_uncoordinated(ends, options, figures)
    finally:
        for end in ends:
            end.close()


def main() -> None:
    """Measure each way in turns."""
    measure_ways("gang", __doc__ or "", compile_rank, measure, digits=4)


if __name__ == "__main__":
    main()
