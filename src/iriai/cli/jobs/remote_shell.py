"""`iriai remote-shell`: what `mpirun` calls in place of ssh."""

from __future__ import annotations

import os

from iriai.cli.framework.command import Command, GlobalOptions, argument
from iriai.cli.framework.standard_streams import STDOUT, readable_stdin, remark
from iriai.cli.jobs.watching.exit_status import exit_code, outcome_text
from iriai.cli.jobs.watching.step import follow_step
from iriai.model.problem import Refused, UsageProblem
from iriai.model.state import EndCause
from iriai.wire.steps import NumberStep

JOB, TASK = "IRIAI_JOB_ID", "IRIAI_TASK_ID"
MACHINES, ADDRESSES = "IRIAI_NODELIST", "IRIAI_ADDRESSES"
HOSTS_SHOWN_MAX = 10


def remote_shell(
    options: GlobalOptions,
    words: list[str] | None = argument(
        None, metavar="HOST COMMAND...", help="A host of the job, and a line for a shell there."
    ),
) -> int:
    """Run a command line on another machine of the job that calls this, as ssh does.

    It is what $IRIAI_EXEC names in the tasks of parallel jobs, for programs that take such a
    command, as mpirun does. HOST is one of $IRIAI_HOSTFILE, or a name of $IRIAI_NODELIST. The line
    is run by a shell, inside the job: see iriai exec.
    """
    host, *line = words or [""]
    if not (host and line):
        raise UsageProblem("no-command", "it takes a host and a command", "see --help")
    job, task = os.environ.get(JOB), os.environ.get(TASK)
    machines, addresses = _listed(MACHINES), _listed(ADDRESSES)
    if not (job and task and machines):
        raise UsageProblem(
            "not-in-a-job",
            "it works inside a parallel job only, which it knows by its environment",
            "use iriai exec JOB -- CMD elsewhere",
        )
    where = NumberStep(f"{job}.{task}", _machine(host, machines, addresses))
    command = ("/bin/sh", "-c", "--", " ".join(line))
    source = readable_stdin()
    outcome = follow_step(options.connect, where, command, source, STDOUT, is_terminal=False)
    if outcome.message or outcome.cause not in (EndCause.COMPLETED, EndCause.FAILED):
        remark(outcome_text(outcome))
    return exit_code(outcome)


def _listed(variable: str) -> list[str]:
    return [each for each in os.environ.get(variable, "").split(",") if each]


def _machine(host: str, machines: list[str], addresses: list[str]) -> str:
    """Return the machine of the job that `host` names, or that has that address."""
    if host in machines:
        return host
    found = [name for name, address in zip(machines, addresses, strict=False) if address == host]
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused(
            "several-seats-there",
            f"{' and '.join(found[:HOSTS_SHOWN_MAX])} are one host, {host}, which mpirun takes for "
            "one machine",
            "ask for ranks on one machine of each host: --nodes 1, or requirements",
        )
    there = list(dict.fromkeys(addresses or machines))
    more = len(there) - HOSTS_SHOWN_MAX
    raise Refused(
        "no-seat-there",
        f"the job has no ranks on {host}",
        f"its hosts are {', '.join(there[:HOSTS_SHOWN_MAX])}{f' and {more} more' * (more > 0)}",
    )


app = Command(
    remote_shell,
    ("$IRIAI_EXEC $HOST hostname", "in a script of a parallel job"),
    takes_command=True,
)
