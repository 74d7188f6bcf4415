"""Gangs in time slices: how exactly eight back ends of one host switch, and what that costs.

Two gangs of a rank on each of eight launchers take turns of 1 s. Under `v2`, `v1` and `none`
(signals): `skew_p50_ms` and `skew_p99_ms` of a switch, from the first rank of the next gang that
goes on to the last one, by ranks that note the time each 0.5 ms; `idle_part` and `overlap_part` of
a slice in which on one back end neither rank ran, or both; `limit_skew_p99_ms` and its like: a bare
loop at real-time priority that writes to the same files, or sends the signals, in the same run. The
goal, `goal_ms`, is a p99 of 5 ms, or of 1.5 times the limit's. `slowdown`: two gangs that compute,
in slices, against one after the other (goal: 1.03). `uncoordinated_ratio`: rounds of two gangs of
two ranks, each pinned to a processor of its own and exchanging a message each millisecond, with
slices agreed against phases at random (goal: 2). Whole systems: `daemons_skew_p50_ms` and its like
of two jobs in a front end with eight back ends, which take turns of 1 s; `slurm_skew_p50_ms` and
its like in Slurm's gang mode with as many nodes, whose slices are of 5 s at least. Needs root and a
C compiler; Slurm is the packages slurm-wlm and munge.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from harness.freezers import KINDS, compile_program
from harness.gang_daemons import daemons_switches
from harness.gang_ranks import PROGRAM, BackEnd, BareLoop, Rank, wait_until
from harness.gang_slurm import SlurmGangs
from harness.gang_switches import Switches, planned_turns, steady_s
from harness.options import Options, read_options
from harness.report import Figure, Figures, finish, machine_facts, progress

BACK_ENDS, QUICK_BACK_ENDS = 8, 2
QUANTUM_S = 1.0
SLICES, QUICK_SLICES = 12, 4
SETTLE_S = 2.0
"""Before the first switch that counts."""
WORK_S, QUICK_WORK_S = 3.0, 0.5
"""For which a gang computes where it is alone."""
PHASES, QUICK_PHASES = 5, 1
PHASE_S, QUICK_PHASE_S = 2.0, 1.0
ROUND_S = 0.001
"""For which a rank computes between two messages."""
DIGITS = 4
SKEW_GOAL_MS, OF_LIMIT_GOAL = 5.0, 1.5
Gangs = list[list[Rank]]


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


def measure_skew(ends: list[BackEnd], options: Options, figures: Figures) -> None:
    """Have two gangs take turns, by the launchers and by a bare loop."""
    slices = options.tasks(SLICES, QUICK_SLICES)
    gangs = [[end.start("note") for end in ends] for _ in range(2)]
    wait_until(lambda: all(rank.notes[1] for gang in gangs for rank in gang), "the ranks")
    row_0_s = steady_s() + SETTLE_S
    order(gangs, row_0_s - 4 * QUANTUM_S)
    time.sleep(SETTLE_S + (slices + 1) * QUANTUM_S)
    notes = [[rank.notes for rank in gang] for gang in gangs]
    own = Switches(notes, planned_turns(row_0_s, QUANTUM_S, slices), QUANTUM_S)
    bare = BareLoop(ends[0].kind, gangs)
    stop_turns(ends)
    row_0_s = steady_s() + SETTLE_S
    bare.run(row_0_s, QUANTUM_S, slices + 1)
    bare.close()
    limit = Switches(notes, planned_turns(row_0_s, QUANTUM_S, slices), QUANTUM_S)
    end_all(gangs)
    own.add_to(figures)
    limit.add_to(figures, "limit_")


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


def measure_slowdown(ends: list[BackEnd], options: Options, figures: Figures) -> None:
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


def rounds(gangs: Gangs, phases_s: tuple[float, ...], lasts_s: float) -> int:
    """Return how many rounds both gangs make together in this time."""
    order(gangs, steady_s() - 4 * QUANTUM_S, phases_s)
    time.sleep(QUANTUM_S)
    before = sum(gang[0].notes[0] for gang in gangs)
    time.sleep(lasts_s)
    return sum(gang[0].notes[0] for gang in gangs) - before


def measure_uncoordinated(ends: list[BackEnd], options: Options, figures: Figures) -> None:
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
    lasts_s = QUICK_PHASE_S if options.quick else PHASE_S
    agreed, others = list[int](), list[int]()
    for number in range(phases):
        phase_s = (number + chance.random()) / phases * 2 * QUANTUM_S
        agreed.append(rounds(gangs, (0.0, 0.0), lasts_s))
        others.append(rounds(gangs, (0.0, phase_s), lasts_s))
    stop_turns(pair)
    end_all(gangs)
    figures.add("uncoordinated_ratio", sum(agreed) / max(1, sum(others)))


def measure(kind: str, program: Path, options: Options, figures: Figures) -> None:
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


def with_goal(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Return figures of launchers with the goal of their skew."""
    limit_ms = figures["limit_skew_p99_ms"] or 0.0
    return figures | {"goal_ms": round(max(SKEW_GOAL_MS, OF_LIMIT_GOAL * limit_ms), DIGITS)}


def main() -> None:
    """Measure each way in turns."""
    options = read_options(__doc__ or "")
    facts = machine_facts(Path(tempfile.gettempdir()))
    back_ends = options.tasks(BACK_ENDS, QUICK_BACK_ENDS)
    slices = options.tasks(SLICES, QUICK_SLICES)
    by_kind, whole = {kind: Figures(DIGITS) for kind in KINDS}, Figures(DIGITS)
    with tempfile.TemporaryDirectory(prefix="iriai-gang-") as name:
        Path(name).chmod(0o755)
        program = compile_program(Path(name), PROGRAM)
        slurm = SlurmGangs(program, back_ends, is_quick=options.quick)
        for run in range(options.runs):
            for kind, figures in by_kind.items():
                measure(kind, program, options, figures)
                progress(f"run {run + 1}, {kind}: {figures.answer()}")
            daemons_switches(program, back_ends, QUANTUM_S, slices).add_to(whole, "daemons_")
            if options.peers:
                slurm.measure(whole)
            progress(f"run {run + 1}, whole systems: {whole.answer()}")
    answers = {kind: with_goal(figures.answer()) for kind, figures in by_kind.items()}
    peers = {"peers": slurm.answer()} if options.peers else {}
    settings = {"runs": options.runs, "back_ends": back_ends, "slices": slices}
    own: dict[str, object] = {"benchmark": "gang", **answers, **whole.answer(), **peers}
    finish(own | {"settings": settings, "machine": facts})


if __name__ == "__main__":
    main()
