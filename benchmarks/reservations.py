"""Reservations: what they get and what they cost those who wait, and how long they take.

`replays`: logs of real machines as one node whose cpus are the cluster, under EASY, with 0 to 20 %
of the processors' time asked for 1 to 48 h ahead, by each policy (`beside`, `slack`, `above`);
widths and lengths are those of jobs, drawn at random. `acceptance` of those that were asked for;
`delay_to_earliest_s`: of those that were refused, until the earliest start that would have done;
`wait_ratio`, `slowdown_ratio`: means of the jobs of the log over those without reservations;
`utilisation` by jobs and reservations. `queued`: the same as jobs, submitted when they would have
started; `late_s` is how long these wait, `at_once` the part that does not. `messages`: KTH-SP2 on
100 machines of one processor, with every message, of which one in a hundred to and from the broker
is lost. `checks`: acceptance of that of an oracle that keeps no margin of a second, answers that
exhaustive search does not give, promises broken and late starts under `beside` and `slack`. All
that is virtual time, and the same in each run.

`earliest_p99_ms` (`whole`, `parts`): 10,000 machines with 10,000 reservations of 8 nodes and 4 h
each, on machines at random that were free: within 14 days (`sparse`), and within 2 days, where two
thirds of all time is booked (`dense`): to find the first start at which 512 nodes are free together
for 1 to 24 h, from a random moment on, and the nodes, as the broker looks for them; times are of
the processor. `whole`: of whole machines; `parts`: half of each machine and a cpu more, where
reservations take half.

`reserve_p50_ms`: through a client, durable on all nodes, on one machine and on 16 in network
namespaces (root). `ratios`: opcodes of a task of an array and of a replayed job in the commit
before reservations, over those of now, counted by `guard.py` where nothing is reserved: load does
not change them.

    python benchmarks/reservations.py [--only replays,messages,earliest,live,ratios] ...

The logs are read from $IRIAI_SHARED/traces, else ../shared/traces.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from harness.options import Options, read_options
from harness.report import (
    Answer,
    as_number,
    finish,
    machine_facts,
    measured_apart,
    median,
    progress,
    ratio,
)

BEFORE = "3348e853f6345b068ad1dad2fdec8edd4902a575"
"""The last commit that knew no reservations."""
LOGS = {"HPC2N": 10_000, "RICC-60k": 10_000}
"""How many jobs of each."""
QUICK_LOGS = {"HPC2N": 200}
ORDERS = ("fifo", "lottery")
PARTS = (0.05, 0.1, 0.2)
QUICK_PARTS = (0.1,)
POLICIES = ("beside", "slack", "above")
KEPT = ("beside", "slack")
"""Those under which no promise is broken."""
QUEUED = "queued"
KTH, KTH_MACHINES, KTH_PART, LOSS = "KTH-SP2", 100, 0.1, 0.01
KTH_JOBS, QUICK_KTH_JOBS = 100, 4
RESERVES, QUICK_RESERVES = 100, 5
LIVE_MACHINES, QUICK_LIVE_MACHINES = 16, 2
WORKERS = 2
RUN_S_MAX = 3_600.0
PROGRAM = str(Path(__file__).resolve())


def measure_one(what: str, words: list[str]) -> Answer:
    """What `measured_apart` asked for."""
    from harness.reserved_logs import measure_full, measure_replay

    if what == "replay":
        return measure_replay(words[0], int(words[1]), words[2], words[3], float(words[4]))
    name, jobs, machines, policy, part, loss = words
    return measure_full(name, int(jobs), int(machines), policy, float(part), float(loss))


def side_by_side(rows: Iterable[tuple[object, ...]], what: str) -> list[Answer]:
    """Measure each row in a process of its own."""

    def one(row: tuple[object, ...]) -> Answer:
        found = measured_apart(PROGRAM, what, *row, run_s_max=RUN_S_MAX)
        progress(" ".join(map(str, row)))
        return found

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(one, rows))


def replays(options: Options) -> Answer:
    """Return the rows of the replays, by log, order, part and policy."""
    logs = QUICK_LOGS if options.quick else LOGS
    parts = QUICK_PARTS if options.quick else PARTS
    ways = [("beside", 0.0), *product((*POLICIES, QUEUED), parts)]
    keys = [(log, order, way) for log in logs for order in ORDERS for way in ways]
    rows = [(log, logs[log], order, policy, part) for log, order, (policy, part) in keys]
    found = dict(zip(keys, side_by_side(rows, "replay"), strict=True))
    made: dict[str, dict[str, dict[str, Answer]]] = {}
    for (log, order, (policy, part)), row in found.items():
        without = found[log, order, ("beside", 0.0)]
        for figure in ("wait", "slowdown"):
            name = "wait_s" if figure == "wait" else figure
            row[f"{figure}_ratio"] = ratio(as_number(row[name]), as_number(without[name]))
        label = f"{policy} {100 * part:g} %" if part else "nothing"
        made.setdefault(log, {}).setdefault(order, {})[label] = _rounded(row)
    return {log: dict(orders) for log, orders in made.items()}


def messages(options: Options) -> Answer:
    """Return the rows of machines with every message, by policy."""
    jobs = options.tasks(KTH_JOBS, QUICK_KTH_JOBS)
    machines = options.tasks(KTH_MACHINES, 4)
    rows = [(KTH, jobs, machines, policy, KTH_PART, LOSS) for policy in KEPT]
    found = side_by_side(rows, "full")
    return {policy: _rounded(row) for policy, row in zip(KEPT, found, strict=True)}


def checks(rows: Iterable[tuple[str, Answer]]) -> Answer:
    """Return what has to hold of all rows together, each with its policy."""
    accepted = oracle = 0.0
    counts = dict.fromkeys(("promises_broken", "late_starts", "answers_wrong"), 0.0)
    counts["answers_checked"] = 0.0
    for policy, row in rows:
        if policy not in KEPT or "asked" not in row:
            continue
        for name in counts:
            counts[name] += as_number(row.get(name, 0))
        if "oracle_acceptance" in row:
            accepted += as_number(row["acceptance"]) * as_number(row["asked"])
            oracle += as_number(row["oracle_acceptance"]) * as_number(row["asked"])
    return {"acceptance_of_oracle": ratio(accepted, oracle), **counts}


def live(options: Options) -> Answer:
    """Return the times of reserving with real daemons."""
    from harness.reserve_live import on_machines, on_one_machine

    count = options.tasks(RESERVES, QUICK_RESERVES)
    machines = options.tasks(LIVE_MACHINES, QUICK_LIVE_MACHINES)
    alone = [on_one_machine(count) for _ in range(options.runs)]
    answer: Answer = {"reserve_p50_ms": {"one": median(alone, 2)}}
    if os.geteuid() == 0:
        many = [on_machines(machines, count) for _ in range(options.runs)]
        answer = {"reserve_p50_ms": {"one": median(alone, 2), "namespaces": median(many, 2)}}
    return answer


def ratios(_options: Options) -> Answer:
    """Return counts of the commit before reservations over those of now."""
    import guard
    from harness.commit import source_of

    cases = ["daemon", "simulator"]
    with source_of(BEFORE) as source:
        before = guard.measure_all(cases, source)
    now = guard.measure_all(cases, Path(__file__).resolve().parent.parent / "src")

    def of(case: str) -> float | None:
        return ratio(before[case]["opcodes"], now[case]["opcodes"])

    return {"ratios": {"replay_ratio": of("replayed_job_easy"), "array_ratio": of("array_task")}}


def _rounded(row: Answer) -> Answer:
    return {
        name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()
    }


def _policies(made: Answer) -> Iterable[tuple[str, Answer]]:
    """Yield the rows of all replays, with their policies."""
    for orders in made.values():
        assert isinstance(orders, dict)
        for rows in orders.values():
            for label, row in rows.items():
                yield label.split()[0], row


def simulated(options: Options, chosen: frozenset[str]) -> Answer:
    """Return what is simulated of what was chosen, and the checks of all of that."""
    made = replays(options) if "replays" in chosen else {}
    told = messages(options) if "messages" in chosen else {}
    rows = [*_policies(made), *((policy, row) for policy, row in told.items())]
    answer: Answer = {}
    if made:
        answer["replays"] = made
    if told:
        answer["messages"] = told
    if rows:
        answer["checks"] = checks((policy, row) for policy, row in rows if isinstance(row, dict))
    return answer


def main() -> None:
    """Measure what was chosen, and print it."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure_one(sys.argv[2], sys.argv[3:])))
        return
    parts = ("replays", "messages", "earliest", "live", "ratios")
    options = read_options(__doc__ or "", parts=parts)
    chosen = frozenset(options.only)
    answer = simulated(options, chosen)
    settings: Answer = {"runs": options.runs, "logs": QUICK_LOGS if options.quick else LOGS}
    if "earliest" in chosen:
        from harness.booked_site import earliest_figures

        found, searched = earliest_figures(options)
        answer, settings = answer | found, settings | searched
    others: dict[str, Callable[[Options], Answer]] = {"live": live, "ratios": ratios}
    for name, measure in others.items():
        if name in chosen:
            progress(name)
            answer |= measure(options)
    if options.pictures is not None and "replays" in answer:
        from harness.reserved_pictures import draw

        made = answer["replays"]
        assert isinstance(made, dict)
        draw(made, options.pictures)
    machine = machine_facts(Path(tempfile.gettempdir()))
    finish(answer | {"settings": settings, "machine": machine})


if __name__ == "__main__":
    main()
