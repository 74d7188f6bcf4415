"""How long a single job takes, from its submission until its end is known, on an idle machine.

`p50_ms`, `p99_ms`: jobs of `true` through one client connection, one after the other, each durable.
Whole processes, as a shell would start them, in turns: `run_ms` and so on, medians, of `iriai run
-- true`, `submit -- true`, `jobs`, `show ID` and `--version`; `python_pass_ms` of `python -c pass`;
`tsp_run_ms`, `tsp_submit_ms` of task-spooler's client (`tsp -nf true`, `tsp -n true`), None without
it. `run_ratio` and so on: how often `python -c pass` they are; `run_ratio` without a single job's
`p50_ms`. `peers`: what Ray and task-spooler need, which keep nothing durable.

As root the jobs run as another user; the commands are root's own, and so are their tasks, since
root's Python may lie where no other user can start it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
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


def command_times_ms(iriai: PrivateIriai, commands: int) -> dict[str, float]:
    """Run each command as a process of its own, in turns; return the median time of each."""
    program = [sys.executable, str(Path(sysconfig.get_path("scripts")) / "iriai")]
    # An installed program is compiled, so what it loads may be written.
    left_out = ("IRIAI_", "PYTHONDONTWRITEBYTECODE")
    environment = {name: each for name, each in os.environ.items() if not name.startswith(left_out)}
    environment["IRIAI_STATE"] = str(iriai.state)

    def run(words: Sequence[str]) -> str:
        return subprocess.run(
            words,
            cwd=iriai.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=COMMAND_S_MAX,
        ).stdout

    job = run([*program, "submit", "--hold", "--", "true"]).strip()
    lines = {
        "python_pass": [sys.executable, "-c", "pass"],
        "version": [*program, "--version"],
        "jobs": [*program, "jobs"],
        "show": [*program, "show", job],
        "submit": [*program, "submit", "--", "true"],
        "run": [*program, "run", "--", "true"],
    }
    with ExitStack() as ending:
        if spooler := shutil.which("tsp"):
            environment |= {"TMPDIR": str(iriai.work), "TS_SOCKET": str(iriai.work / "tsp")}
            lines |= {"tsp_submit": [spooler, "-n", "true"], "tsp_run": [spooler, "-nf", "true"]}
            ending.callback(run, [spooler, "-K"])
        samples: dict[str, list[float]] = {name: [] for name in lines}
        for round_number in range(commands + 1):
            for name, words in lines.items():
                took_ms = time_ms(partial(run, words))
                if round_number:  # the first loads files, and starts task-spooler's server
                    samples[name].append(took_ms)
    return {f"{name}_ms": statistics.median(taken) for name, taken in samples.items()}


def measure_iriai(options: Options) -> Mapping[str, float]:
    """Measure jobs and commands once, with a fresh state directory."""
    jobs = options.tasks(JOBS, QUICK_JOBS)
    with PrivateIriai(cpus=len(os.sched_getaffinity(0)), system_users=True) as iriai:
        time.sleep(0.0 if options.quick else SETTLE_S)
        times_ms = iriai.as_user(lambda client: job_times_ms(client, iriai.work, jobs))
        commands_ms = command_times_ms(iriai, options.tasks(COMMANDS, QUICK_COMMANDS))
    p50_ms, pass_ms = percentile(times_ms, 50), commands_ms["python_pass_ms"]
    ratios = {name.replace("_ms", "_ratio"): took / pass_ms for name, took in commands_ms.items()}
    del ratios["python_pass_ratio"]
    ratios["run_ratio"] = (commands_ms["run_ms"] - p50_ms) / pass_ms
    return {"p50_ms": p50_ms, "p99_ms": percentile(times_ms, 99)} | commands_ms | ratios


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
