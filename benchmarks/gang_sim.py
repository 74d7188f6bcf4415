"""Gangs in time slices on logs, on many machines and under a flood, in virtual time.

`logs`: the first 5,000 jobs (all of them take hours) of KTH-SP2 on 100 machines of one processor,
and of HPC2N on 120 of two, as it was, under EASY in order of arrival. `bounded_slowdown` (from
10 s) is the mean, where queues are `shared` (`easy`), take turns in 2 or 4 rows (`gang_2`,
`gang_4`), or are `exclusive`. The last means something with several queues alone: three, by the
limits of the jobs (an hour, ten hours), as is usual; `shared_by_limit` has the same queues, whose
jobs are not frozen. `recorded` is what another simulator's EASY gave the same jobs
(../shared/traces). What a rank needs of memory is what the log says, else (KTH-SP2) drawn from what
HPC2N's say, seed 1. A machine has 1 GiB for each processor, twice what HPC2N's had: most of its
jobs ask for 400 MiB a rank, so with theirs nobody would share. `gang_4_2_gib`: with 2 GiB, where
memory bounds less. `shared_time_part`: of the time in which a machine ran something, that with more
rows than one in use.

`gangs`: 1,000 machines of one processor and 2 GiB, 200 gangs of 1, 2, 4 to 512 ranks with equal
odds, hours lognormal with sigma 1.5, seed 1, which come within an hour; without turns and with 2
and 4 rows. `utilisation` until the last has started; `pass_p99_ms` is the processor time of the
pass after each event, median of the runs.

`flood`: 64 machines; queue 0 gets jobs of ten minutes and 1 to 16 ranks at 1.2 times what the
machines can do, queue 2 one of 4 ranks each quarter of an hour, under the lottery, for half a day,
all queues in mode `gang` with 4 rows, or `exclusive`. `longest_wait_s` is that of the low jobs
until their first start; what waits at the end counts with its time until then. `bound_s`: `age_s`
times the queue, a cycle, and the longest limit, which takes four times as long in turns.
`longest_stand_s`: the longest time for which one of them was frozen for higher ones.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator
from math import fsum

from harness.gang_replay import GangReplay, TurnRecord
from harness.gang_worlds import GIB, RULES, Flood, Site, gang_world, log_of, log_world
from harness.options import Options, read_options
from harness.report import (
    as_number,
    finish,
    machine_facts,
    measured_apart,
    median,
    percentile,
    progress,
)
from parallel_sim import traces

from iriai.config.sections import GangSection
from iriai.sim.workload.log import Record
from iriai.sim.workload.metrics import bounded_slowdown, spread

SITES = {
    "KTH-SP2": Site("KTH-SP2", 100, 1, GIB),
    "HPC2N": Site("HPC2N", 120, 2, 2 * GIB),
}
JOBS = {"KTH-SP2": 5_000, "HPC2N": 5_000}
QUICK_JOBS = 100
QUICK_RULES = ("easy", "gang_4", "exclusive")
RECORDED = {"KTH-SP2": "KTH-SP2.easy.starts.csv.gz"}
MEMORY_TWICE = "gang_4_2_gib"
GANG_RULES = ("easy", "gang_2", "gang_4")
MACHINES, QUICK_MACHINES = 1_000, 64
GANGS, QUICK_GANGS = 200, 30
FLOOD_RULES = ("gang_4", "exclusive")
FLOOD_S, QUICK_FLOOD_S = 43_200.0, 3_600.0
AGES_S = {"900": 900.0, "3600": 3_600.0, "none": None}
SEED = 1
RUN_S_MAX = 3_600.0


def measure_log(name: str, rule: str, jobs_max: int) -> dict[str, object]:
    """Replay a log under a rule."""
    site = SITES[name]
    if rule == MEMORY_TWICE:
        site, rule = site._replace(memory_bytes=2 * site.memory_bytes), "gang_4"
    replay = log_world(traces(), site, RULES[rule], jobs_max, SEED)
    replay.run()
    slowdowns = spread(each.bounded_slowdown for each in replay.records)
    return {
        "jobs": len(replay.records),
        "bounded_slowdown": round(slowdowns.mean, 2),
        "bounded_slowdown_p50": round(slowdowns.p50, 2),
        "bounded_slowdown_p99": round(slowdowns.p99, 2),
        "longest_stand_s": round(max(each.stood_s for each in replay.records)),
        "pass_p99_ms": round(percentile(replay.took_ms, 99), 2),
    } | of_all(replay)


def of_all(replay: GangReplay) -> dict[str, object]:
    """What is told of each replay."""
    responses_s = fsum(each.response_s for each in replay.records)
    return {
        "mean_response_s": round(responses_s / len(replay.records)),
        "shared_time_part": round(replay.time.shared_s / replay.time.busy_s, 4),
        "utilisation": round(replay.utilisation, 4),
    }


def recorded(name: str, jobs_max: int) -> float | None:
    """Return the bounded slowdown of another simulator's EASY; None: nobody has it."""
    if name not in RECORDED:
        return None
    with gzip.open(traces() / RECORDED[name], "rt") as lines:
        starts = {int(row["job"]): float(row["start"]) for row in csv.DictReader(lines)}
    records = [
        Record(job, starts[job.number], starts[job.number] + job.run_s)
        for job in log_of(traces(), name, jobs_max).jobs
    ]
    return round(spread(map(bounded_slowdown, records)).mean, 2)


def measure_gangs(rule: str, machines: int, gangs: int) -> dict[str, object]:
    """Run gangs on many machines of one processor."""
    replay = gang_world(machines, gangs, RULES[rule], traces(), SEED)
    replay.run()
    return {
        "passes": len(replay.took_ms),
        "pass_p50_ms": percentile(replay.took_ms, 50),
        "pass_p99_ms": percentile(replay.took_ms, 99),
        "pass_max_ms": max(replay.took_ms),
    } | of_all(replay)


def measure_flood(name: str, age: str, until_s: float) -> dict[str, object]:
    """Return how long low jobs waited."""
    flood, age_s, rule = Flood(until_s), AGES_S[age], RULES[name]
    replay = flood.world(rule, age_s, SEED)
    replay.run(until_s)
    low = list(_low_records(replay, until_s))
    bound_s = None
    if age_s is not None:
        cycle_s = rule.rows_max * GangSection().quantum_s
        bound_s = age_s * flood.low_queue + cycle_s + rule.rows_max * flood.run_s
    return {
        "longest_wait_s": round(max(each.wait_s for each in low)),
        "bound_s": bound_s,
        "longest_stand_s": round(max(each.stood_s for each in low)),
        "low_jobs": len(low),
    }


def _low_records(replay: GangReplay, until_s: float) -> Iterator[TurnRecord]:
    """Yield low jobs, those that are not over with their times until then."""
    for record in (*replay.records, *replay.unfinished(until_s)):
        if record.turn_job.queue:
            yield record


def apart(what: str, *arguments: object) -> dict[str, object]:
    """Measure in a process of its own."""
    return measured_apart(__file__, what, *arguments, run_s_max=RUN_S_MAX)


def measure_one(what: str, words: list[str]) -> dict[str, object]:
    """What `apart` asked for."""
    if what == "log":
        return measure_log(words[0], words[1], int(words[2]))
    if what == "gangs":
        return measure_gangs(words[0], int(words[1]), int(words[2]))
    return measure_flood(words[0], words[1], float(words[2]))


def logs(options: Options) -> dict[str, object]:
    """Each log under each rule."""
    found: dict[str, object] = {}
    for name in SITES:
        jobs_max = options.tasks(JOBS[name], QUICK_JOBS)
        rows: dict[str, object] = {}
        for rule in QUICK_RULES if options.quick else (*RULES, MEMORY_TWICE):
            progress(f"{name}: {rule}")
            rows[rule] = apart("log", name, rule, jobs_max)
        found[name] = rows | {"recorded": recorded(name, jobs_max)}
    return found


def gangs(options: Options) -> dict[str, object]:
    """Gangs on many machines: of times the medians, all else is the same in each run."""
    machines, number = options.tasks(MACHINES, QUICK_MACHINES), options.tasks(GANGS, QUICK_GANGS)
    found: dict[str, object] = {}
    for rule in GANG_RULES:
        rounds = []
        for run in range(options.runs):
            progress(f"{number} gangs, {rule}: run {run + 1} of {options.runs}")
            rounds.append(apart("gangs", rule, machines, number))
        times = {
            name: median([as_number(each[name]) for each in rounds], 2)
            for name in ("pass_p50_ms", "pass_p99_ms", "pass_max_ms")
        }
        found[rule] = rounds[0] | times
    return found


def floods(options: Options) -> dict[str, object]:
    """The longest wait of a low queue, by age."""
    until_s = QUICK_FLOOD_S if options.quick else FLOOD_S
    found: dict[str, object] = {}
    for rule in FLOOD_RULES:
        progress(f"floods, {rule}")
        found[rule] = {age: apart("flood", rule, age, until_s) for age in AGES_S}
    return found


def main() -> None:
    """Measure all, and print what was found."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure_one(sys.argv[2], sys.argv[3:])))
        return
    options = read_options(__doc__ or "")
    machine = machine_facts(traces())
    settings = {
        "sites": {name: site._asdict() for name, site in SITES.items()},
        "jobs_of_log": {name: options.tasks(jobs, QUICK_JOBS) for name, jobs in JOBS.items()},
        "machines": options.tasks(MACHINES, QUICK_MACHINES),
        "gangs": options.tasks(GANGS, QUICK_GANGS),
        "seed": SEED,
        "runs": options.runs,
    }
    finish(
        {
            "gangs": gangs(options),
            "flood": floods(options),
            "logs": logs(options),
            "settings": settings,
            "machine": machine,
        }
    )


if __name__ == "__main__":
    main()
