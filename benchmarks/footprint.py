"""What iriai costs when it does nothing, and when very much waits.

`idle_rss_mb`, `idle_cpu_percent`: resident memory, and processor time over IDLE_S seconds in
percent of one processor, of daemon and launcher together. `queued_100k_extra_mb`: what both grow by
when 100,000 single jobs are queued. `jobs_listing_100k_s`: a client's call that lists them all,
nothing rendered; `jobs_page_100k_s`: one that lists the first PAGE of them. `restart_100k_s`:
supervisor and daemon are killed; from the call that brings them up again until a new job was
accepted and the first of the waiting ones was drawn and has ended.

One task that fills the machine keeps the jobs waiting. Megabytes are 2^20 bytes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from harness.options import Options, read_options
from harness.private_iriai import PrivateIriai
from harness.processes import cpu_s, rss_mb
from harness.report import finish, machine_facts, median, progress

from iriai.client import Client, draft
from iriai.model.problem import Problem
from iriai.model.state import EndCause
from iriai.wire.requests import Jobs

QUEUED = 100_000
QUICK_QUEUED = 1_000
SUBMITTED_AT_ONCE = 10_000
"""Jobs handed in by one call: so many answers wait in the client at most."""
SETTLE_S = 3.0
"""After a start or a flood of submissions, for what is still being done about it to end."""
IDLE_S = 30.0
"""The kernel counts in steps of 10 ms: 0.03 percent of this."""
QUICK_SETTLE_S = 0.1
QUICK_IDLE_S = 1.0
BLOCKER_S = 3600
"""Longer than any run; it is cancelled."""
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
PAGE = 100
LISTINGS = 5
"""The median of so many calls stands for a run."""


def daemon_and_launcher(iriai: PrivateIriai) -> list[int]:
    """Return their pids."""
    status = iriai.status()
    if status.launcher_pid is None:
        raise RuntimeError("the daemon has no launcher")
    return [status.daemon_pid, status.launcher_pid]


def idle_figures(iriai: PrivateIriai, options: Options) -> dict[str, float]:
    """Measure memory and processor use while nothing is asked."""
    pids = daemon_and_launcher(iriai)
    supervisor = iriai.status().supervisor_pid
    idle_s = QUICK_IDLE_S if options.quick else IDLE_S
    before_s = cpu_s(pids)
    time.sleep(idle_s)
    return {
        "idle_cpu_percent": (cpu_s(pids) - before_s) / idle_s * 100,
        "idle_rss_mb": rss_mb(pids),
        "supervisor_rss_mb": rss_mb([supervisor]) if supervisor is not None else 0.0,
    }


def block(client: Client, folder: Path) -> str:
    """Fill the machine with one task and return its id."""
    cpus = client.status().capacity["cpus"]
    words = ["sleep", str(BLOCKER_S)]
    blocker = client.submit(draft(words, cwd=folder, env=ENVIRONMENT, cpus=cpus)).id
    while client.show(blocker).row.state != "running":
        time.sleep(0.01)
    return blocker


def queue(client: Client, folder: Path, jobs: int) -> tuple[str, float]:
    """Hand in `jobs` single jobs; return the id of the first and jobs accepted a second."""
    one = draft(["true"], cwd=folder, env=ENVIRONMENT)
    first = ""
    began = time.perf_counter()
    for start in range(0, jobs, SUBMITTED_AT_ONCE):
        answers = client.submit_many([one] * min(SUBMITTED_AT_ONCE, jobs - start))
        for answer in answers:
            if isinstance(answer, Problem):
                raise answer
            first = first or answer.id
    return first, jobs / (time.perf_counter() - began)


def listing_s(client: Client, request: Jobs, jobs: int) -> float:
    """Return how long the client's call takes that lists what is asked for, which is `jobs`."""
    times_s = []
    for _ in range(LISTINGS):
        began = time.perf_counter()
        rows = client.jobs(request)
        times_s.append(time.perf_counter() - began)
        if len(rows) != jobs:
            raise RuntimeError(f"{len(rows)} jobs are listed, not {jobs}")
    return sorted(times_s)[LISTINGS // 2]


def restart(iriai: PrivateIriai, blocker: str, first: str) -> dict[str, float]:
    """Kill the daemon, bring it up again, and return when it accepted and when it had drawn."""
    iriai.crash()
    began = time.perf_counter()
    iriai.start()
    answered_s = time.perf_counter() - began

    def accept_and_draw(client: Client) -> tuple[float, float]:
        client.submit(draft(["true"], cwd=iriai.work, env=ENVIRONMENT))
        accepted_s = time.perf_counter() - began
        client.cancel([blocker])
        [outcome] = client.wait([first])
        drawn_s = time.perf_counter() - began
        if outcome.cause != EndCause.COMPLETED:
            raise RuntimeError(f"the first job did not complete: {outcome}")
        return accepted_s, drawn_s

    accepted_s, drawn_s = iriai.as_user(accept_and_draw)
    return {
        "restart_100k_s": drawn_s,
        "restart_100k_answers_s": answered_s,
        "restart_100k_accepts_s": accepted_s,
    }


def measure_iriai(options: Options) -> dict[str, float]:
    """Measure everything once, with a fresh state directory."""
    jobs = options.tasks(QUEUED, QUICK_QUEUED)
    settle_s = QUICK_SETTLE_S if options.quick else SETTLE_S
    cpus = len(os.sched_getaffinity(0))
    with PrivateIriai(cpus, jobs_per_user=2 * jobs) as iriai:
        time.sleep(settle_s)
        progress("idle")
        figures = idle_figures(iriai, options)

        progress(f"{jobs} jobs are being queued")
        blocker = iriai.as_user(lambda client: block(client, iriai.work))
        first, rate = iriai.as_user(lambda client: queue(client, iriai.work, jobs))
        time.sleep(settle_s)
        figures["queued_100k_extra_mb"] = (
            rss_mb(daemon_and_launcher(iriai)) - figures["idle_rss_mb"]
        )
        figures["accepted_per_s"] = rate

        progress("listing")
        figures["jobs_listing_100k_s"] = iriai.as_user(
            lambda client: listing_s(client, Jobs(), jobs + 1)  # and the one that runs
        )
        figures["jobs_page_100k_s"] = iriai.as_user(
            lambda client: listing_s(client, Jobs(limit=PAGE), PAGE)
        )
        progress("restart")
        figures |= restart(iriai, blocker, first)
        figures["restarted_rss_mb"] = rss_mb(daemon_and_launcher(iriai))
    return figures


def main() -> None:
    """Measure all, `runs` times."""
    options = read_options(__doc__ or "")
    machine = machine_facts(Path(tempfile.gettempdir()))
    samples: dict[str, list[float]] = {}
    for run in range(options.runs):
        progress(f"run {run + 1} of {options.runs}")
        for name, value in measure_iriai(options).items():
            samples.setdefault(name, []).append(value)
    finish(
        {
            **{name: median(values, digits=3) for name, values in samples.items()},
            "settings": {
                "queued": options.tasks(QUEUED, QUICK_QUEUED),
                "idle_s": QUICK_IDLE_S if options.quick else IDLE_S,
                "runs": options.runs,
            },
            "samples": {name: [round(each, 3) for each in run] for name, run in samples.items()},
            "machine": machine,
        }
    )


if __name__ == "__main__":
    main()
