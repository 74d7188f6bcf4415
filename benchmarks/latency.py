"""How long a single job takes, from its submission until its end is known, on an idle machine.

`p50_ms`, `p99_ms`: jobs of `true` through one client connection, one after the other, each durable.
`command_p50_ms`: whole processes of `iriai run -- true`, as a shell would start them. `peers`: what
Ray and task-spooler need, which keep nothing durable.

As root the jobs run as another user; the commands are root's own, and so are their tasks, since
root's Python may lie where no other user can start it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import peers
from harness.options import Options, read_options
from harness.private_iriai import PrivateIriai
from harness.report import finish, machine_facts, median, percentile, progress

from iriai.client import Client, draft
from iriai.model.state import EndCause

JOBS = 1_000
QUICK_JOBS = 100
WARM_UP_JOBS = 50
"""The first jobs make a control group and load code."""
COMMANDS = 30
QUICK_COMMANDS = 2
COMMAND_S_MAX = 60.0
SETTLE_S = 1.0
"""Between what was started before and the first job, so that the machine is idle."""
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def time_ms(work: Callable[[], object]) -> float:
    """Call `work` and return the milliseconds it took."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def job_times_ms(client: Client, folder: Path, jobs: int) -> list[float]:
    """Run single jobs one after the other; return each one's time."""
    one = draft(["true"], cwd=folder, env=ENVIRONMENT)

    def run() -> None:
        [outcome] = client.wait([client.submit(one).id])
        if outcome.cause != EndCause.COMPLETED:
            raise RuntimeError(f"a job did not complete: {outcome}")

    for _ in range(WARM_UP_JOBS):
        run()
    return [time_ms(run) for _ in range(jobs)]


def command_times_ms(iriai: PrivateIriai, commands: int) -> list[float]:
    """Run `iriai run -- true` as a command, one after the other; return each one's time."""
    program = Path(sysconfig.get_path("scripts")) / "iriai"
    environment = {**os.environ, "IRIAI_STATE": str(iriai.state)}
    words = [sys.executable, str(program), "run", "--", "true"]

    def run() -> None:
        subprocess.run(
            words,
            cwd=iriai.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=COMMAND_S_MAX,
        )

    run()
    return [time_ms(run) for _ in range(commands)]


def measure_iriai(options: Options) -> Mapping[str, float]:
    """Measure jobs and commands once, with a fresh state directory."""
    jobs = options.tasks(JOBS, QUICK_JOBS)
    with PrivateIriai(cpus=len(os.sched_getaffinity(0)), system_users=True) as iriai:
        time.sleep(0.0 if options.quick else SETTLE_S)
        times_ms = iriai.as_user(lambda client: job_times_ms(client, iriai.work, jobs))
        commands_ms = command_times_ms(iriai, options.tasks(COMMANDS, QUICK_COMMANDS))
    return {
        "p50_ms": percentile(times_ms, 50),
        "p99_ms": percentile(times_ms, 99),
        "command_p50_ms": percentile(commands_ms, 50),
    }


def main() -> None:
    """Measure all in turns, `runs` times."""
    options = read_options(__doc__ or "")
    jobs = options.tasks(JOBS, QUICK_JOBS)
    machine = machine_facts(Path(tempfile.gettempdir()))
    chosen = peers.FOR_LATENCY if options.peers else ()
    others = peers.PeerRuns(chosen, "latency", jobs)
    samples: dict[str, list[float]] = {}
    for run in range(options.runs):
        progress(f"run {run + 1} of {options.runs}: iriai")
        for name, time_in_ms in measure_iriai(options).items():
            samples.setdefault(name, []).append(time_in_ms)
        others.round()
    finish(
        {
            **{name: median(values, digits=2) for name, values in samples.items()},
            "peers": others.result("p50_ms", "p99_ms", digits=2),
            "settings": {
                "jobs": jobs,
                "commands": options.tasks(COMMANDS, QUICK_COMMANDS),
                "runs": options.runs,
            },
            "samples": {name: [round(each, 2) for each in run] for name, run in samples.items()},
            "machine": machine,
        }
    )


if __name__ == "__main__":
    main()
