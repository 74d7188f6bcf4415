"""How fast requirements are matched with ads on both sides, beside HTCondor's library one by one.

A pool of machines, each with one of 20 owners' policies, and distinct requirements of jobs of 50
users. Ours: every requirement against every machine, what owners require included, from texts to
the set of machines that match; nothing is remembered from one run to the next. The library: pairs
of a sample, its ads made and parsed beforehand, by `ClassAd.symmetricMatch`. Both take turns within
a run; times are of the processor. The answers of the sample must be the same.

`one_requirement_ms`: one requirement against all machines, by columns, and by groups of machines of
which it sees the same, each group asked of the library once: of what a machine is, and of its load.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

import classad2
from harness.report import Figure, finish, machine_facts, median, progress

from iriai.classad.constraint import condition
from iriai.classad.expression import parse_expression
from iriai.classad.reference_evaluator import evaluate
from iriai.classad.syntax_tree import holds
from iriai.classad.volatile_attributes import clock_attributes, load_attributes
from iriai.model.ad import MachineAd, Value, job_attributes, machine_ad
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.policy.matching.job_requirements import DemandKey
from iriai.policy.matching.match import Matches

MACHINES, REQUIREMENTS = 10_000, 1_000
SAMPLE_MACHINES, SAMPLE_REQUIREMENTS = 200, 100
USERS, GROUPS = 50, 4
WALL_S = 1_800_000_000 // 60 * 60
CHANGES = 20
"""Machines whose load changes, one after the other, while all requirements are looked at."""

OWNERS = [
    *(f"LoadAvg - CondorLoadAvg < 0.{part} && KeyboardIdle > {part * 60}" for part in range(1, 6)),
    *(f'TARGET.Owner =!= "user{user}"' for user in range(4)),
    *(f'TARGET.AcctGroup == "group{group}" || LoadAvg < 0.3' for group in range(GROUPS)),
    *(f"ClockMin < {hour * 60} || ClockMin > {1200 - hour * 30}" for hour in (7, 8, 9)),
    "TARGET.RequestMemory * 2 <= Memory && TARGET.RequestCpus <= Cpus / 2",
    "TARGET.JobPrio >= 1 && (TARGET.AllowedJobDuration ?: 1000000.0) < 36000",
    'ifThenElse(ClockDay == 0, true, TARGET.Owner == "user7")',
    "true",
]
assert len(OWNERS) == 20

Ad = dict[str, Value]


class Pool(NamedTuple):
    """What is matched."""

    machines: list[tuple[MachineAd, Ad, Ad]]
    """Each: its ad, what it said in it, what it measured."""
    jobs: list[tuple[Ad, str]]
    """Each: its ad and its requirements."""


def make_pool(machines: int, requirements: int) -> Pool:
    """The same pool each time."""
    dice = Random(1)
    rows = []
    for number in range(machines):
        static: Ad = {
            "MyType": "Machine",
            "Machine": f"node{number}",
            "Arch": dice.choice(["X86_64", "X86_64", "X86_64", "aarch64"]),
            "OpSys": "LINUX",
            "OpSysAndVer": dice.choice(["Debian12", "Debian13", "Ubuntu24", "AlmaLinux9"]),
            "Cpus": dice.choice([4, 8, 16, 64]),
            "Memory": dice.choice([8, 16, 64, 256]) * 1024,
            "Gpus": dice.choice([0, 0, 0, 1, 4]),
            "KFlops": dice.randrange(10**6, 10**7),
            "Mips": dice.randrange(10**3, 10**5),
            "UtcOffset": dice.choice([0, 3600, 32400]),
        }
        if dice.random() < 0.3:
            static["HasMatlab"] = True
        load = dice.random() * 2
        measured = load_attributes(load, load * dice.random(), dice.randrange(5000))
        rows.append((machine_ad(static, OWNERS[number % len(OWNERS)]), static, measured))
    jobs = [(_job(dice), _requirements(dice, number)) for number in range(requirements)]
    return Pool(rows, jobs)


def _job(dice: Random) -> Ad:
    user = dice.randrange(USERS)
    resources = Resources(dice.choice([1, 2, 4]), dice.choice([1, 4, 16]) << 30)
    limit_s = dice.choice([None, 3600.0, 86400.0])
    account = Account(f"group{user % GROUPS}", f"user{user}")
    return job_attributes(account, resources, limit_s, 1.0, exclusive=False)


def _requirements(dice: Random, number: int) -> str:
    clauses = [
        'Arch == "X86_64"',
        f"Memory >= {1024 + number * 61 % 60_000}",
        f'OpSysAndVer =!= "{dice.choice(["Debian12", "Debian13", "AlmaLinux9"])}"',
        f"(Gpus > 0 || Mips > {dice.randrange(90_000)})",
        f"LoadAvg < {dice.random() * 2:.3f}",
        "HasMatlab =?= true",
        f'Machine != "node{dice.randrange(10_000)}"',
        f"KFlops / Cpus > {dice.randrange(2_000_000)}",
    ]
    dice.shuffle(clauses)
    return " && ".join(sorted(clauses[: dice.randrange(2, 6)]))


def key_of(job: Ad, requirements: str, keys: frozenset[str]) -> DemandKey:
    """As a broker makes it: what of the job is looked at."""
    traits = ((name.lower(), value) for name, value in job.items())
    return DemandKey(requirements, "", tuple(each for each in traits if each[0] in keys))


def put_all(pool: Pool) -> Matches:
    """All machines tell their ads."""
    matches = Matches()
    matches.tick(WALL_S)
    for number, (ad, _, measured) in enumerate(pool.machines):
        matches.put(f"node{number}", ad, measured)
    return matches


def match_all(matches: Matches, pool: Pool) -> list[set[str]]:
    """For each job the machines that match."""
    keys = matches.significant
    demands = [matches.demand(key_of(job, text, keys)) for job, text in pool.jobs]
    for demand in demands:
        demand.count()
    return [set(demand.names()) for demand in demands[:SAMPLE_REQUIREMENTS]]


def library_ads(pool: Pool) -> tuple[list[classad2.ClassAd], list[classad2.ClassAd]]:
    """The sample as the library has it."""
    machines = []
    for ad, static, measured in pool.machines[:SAMPLE_MACHINES]:
        made = classad2.ClassAd(static | measured | clock_attributes(WALL_S, static))
        made["Requirements"] = classad2.ExprTree(ad.requirements)
        machines.append(made)
    jobs = []
    for job, text in pool.jobs[:SAMPLE_REQUIREMENTS]:
        made = classad2.ClassAd(dict(job))
        made["Requirements"] = classad2.ExprTree(text)
        jobs.append(made)
    return machines, jobs


STATIC_TEXT = 'Arch == "X86_64" && Memory >= 16384 && OpSysAndVer =!= "Debian12"'
LOAD_TEXT = "LoadAvg - CondorLoadAvg < 0.3 && KeyboardIdle > 900"


def one_requirement_ms(matches: Matches, text: str) -> dict[str, float]:
    """Time one requirement on all machines in both ways, which must agree."""
    wanted, job, rows = condition(text), {"mytype": "Job"}, range(matches.rows)
    began = time.process_time()
    _, admits = matches.judge(wanted, job, None)
    columns_s = time.process_time() - began
    began = time.process_time()
    expression = parse_expression(text, "a benchmark")
    keys = [each.key for each in expression.attributes()]
    known: dict[tuple[Value | None, ...], bool] = {}
    grouped = bytearray(matches.rows)
    for row in rows:
        ad = matches.ad(f"node{row}")
        seen = tuple([ad.get(key) for key in keys])
        if seen not in known:
            group = {key: value for key, value in zip(keys, seen, strict=True) if value is not None}
            known[seen] = holds(evaluate(expression, job, group))
        grouped[row] = known[seen]
    groups_s = time.process_time() - began
    # The owners' requirements are in both answers of columns, and in neither of groups.
    if any(admits[row] and not grouped[row] for row in rows):
        raise RuntimeError(f"columns and groups differ on {text}")
    return {"columns": columns_s * 1e3, "groups": groups_s * 1e3, "count": len(known)}


class Run(NamedTuple):
    """One run."""

    put_s: float
    ours_us: float
    """A pair."""
    library_us: float
    """A pair."""
    change_ms: float
    """To look at all requirements again after one machine told its load."""
    is_same: bool
    static: dict[str, float]
    load: dict[str, float]


def measure(pool: Pool) -> Run:
    """Both, in turn."""
    gc.collect()
    began = time.process_time()
    matches = put_all(pool)
    put_s = time.process_time() - began
    began = time.process_time()
    found = match_all(matches, pool)
    ours_s = time.process_time() - began
    machines, jobs = library_ads(pool)
    began = time.process_time()
    theirs = [[job.symmetricMatch(machine) for machine in machines] for job in jobs]
    library_s = time.process_time() - began
    is_same = all(
        answer == (f"node{number}" in names)
        for names, answers in zip(found, theirs, strict=True)
        for number, answer in enumerate(answers)
    )
    pairs = len(pool.machines) * len(pool.jobs)
    library_us = library_s * 1e6 / (len(machines) * len(jobs))
    static, load = (one_requirement_ms(matches, text) for text in (STATIC_TEXT, LOAD_TEXT))
    changes_ms = _changes(matches, pool)
    return Run(put_s, ours_s * 1e6 / pairs, library_us, changes_ms, is_same, static, load)


def _changes(matches: Matches, pool: Pool) -> float:
    keys = matches.significant
    demands = [matches.demand(key_of(job, text, keys)) for job, text in pool.jobs]
    began = time.process_time()
    for number in range(CHANGES):
        matches.measured(f"node{number}", {"LoadAvg": 3.0 + number})
        for demand in demands:
            demand.count()
    return (time.process_time() - began) * 1e3 / CHANGES


def main() -> None:
    """Measure, and say it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="medians of so many runs")
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--requirements", type=int, default=REQUIREMENTS)
    parser.add_argument("--quick", action="store_true", help="one small run, as a check")
    parser.add_argument("--no-peers", action="store_true", help="the library is no other system")
    given = parser.parse_args()
    if given.quick:
        given.runs, given.machines, given.requirements = 1, 200, 20
    classad2.parseOne('MyType = "Machine"')  # from here on it looks names up in both ads
    pool = make_pool(given.machines, given.requirements)
    runs = []
    for number in range(given.runs):
        progress(f"run {number + 1} of {given.runs}")
        runs.append(measure(pool))
    speedups: list[float] = [run.library_us / run.ours_us for run in runs]
    ours: Figure = median([run.ours_us for run in runs], 4)
    finish(
        {
            "speedup_over_classad2": median(speedups),
            "speedup_least": round(min(speedups), 1),
            "same_answers": all(run.is_same for run in runs),
            "ours_us_per_pair": ours,
            "classad2_us_per_pair": median([run.library_us for run in runs], 2),
            "put_us_per_machine": median([run.put_s * 1e6 / given.machines for run in runs]),
            "one_machine_changed_ms": median([run.change_ms for run in runs], 2),
            "one_requirement_ms": {
                "of_what_a_machine_is": {
                    key: median([run.static[key] for run in runs]) for key in runs[0].static
                },
                "of_its_load": {
                    key: median([run.load[key] for run in runs]) for key in runs[0].load
                },
            },
            "settings": {
                "machines": given.machines,
                "requirements": given.requirements,
                "policies": len(OWNERS),
                "sample": [SAMPLE_MACHINES, SAMPLE_REQUIREMENTS],
                "runs": given.runs,
            },
            "machine": machine_facts(Path(tempfile.gettempdir())),
        }
    )


if __name__ == "__main__":
    main()
