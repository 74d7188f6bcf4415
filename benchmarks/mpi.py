"""Starts inside parallel jobs: job steps, and ranks of MPI programs by them.

`exec_p50_ms`: `iriai exec JOB -- true`, from its begin to its end; `here` in a job on this machine,
`there` in one on another machine of the cluster, in network namespaces. `python_p50_ms`: `python3
-c pass`, which each such command is at least; `ratio`: of the two here; the goal is 8, and 50 ms
more there. `start_p50_s`: `mpirun` (OpenMPI) of a program that does nothing but meet, 8 ranks on 4
machines, by job steps; `ssh_start_p50_s` the same through OpenSSH, whose servers run as the user;
`difference_s`: of the two; the goal is 0.2. `hydra_start_p50_s`: the same of MPICH's `mpiexec`;
`alone_p50_s`: of `mpirun` with 2 ranks on one machine, which starts no step. `pmi_start_p50_s`:
`iriai run` of the program of MPICH, without `mpiexec`, from its begin to its end; the goal is 0.5.
Needs root, and the packages of tests/debian-packages.txt.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from harness.live_network import Network, live_network, until
from harness.options import Options, read_options
from harness.report import Figure, finish, machine_facts, median, progress, ratio

EXECS, QUICK_EXECS = 100, 10
STARTS, QUICK_STARTS = 9, 2
SETTLE_S = 3.0
"""Before the first run, so that machines that were just started are idle."""
WAIT_S = 120.0
MACHINES = 4
SSH_PORT = 2222
ON = {"here": "m0", "there": "m1"}
MEET = """
#include <mpi.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
"""
TIMED = "before=$(date +%s%N); {command} || exit; echo $(( $(date +%s%N) - before ))"
"""Prints how many nanoseconds a command took, inside of its job."""


def took_ms(command: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """Return how long a command takes; it has to succeed."""
    began_s = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        env=environment,
        cwd="/tmp",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT_S,
    )
    return (time.perf_counter() - began_s) * 1000


def exec_times_ms(network: Network, where: str, count: int) -> list[float]:
    """Return how long steps take in a job that runs on a machine."""
    machine = network.machines["m0"]
    environment = machine.environment()
    wanted = f'Machine == "{ON[where]}"'
    submit = machine.command("submit", "--requirements", wanted, "--", "sleep", "600")
    done = subprocess.run(
        submit, check=True, env=environment, cwd=machine.work, capture_output=True, text=True
    )
    job = done.stdout.strip()
    with machine.client() as client:
        until(lambda: client.show(job).row.state == "running", f"the start of {job}")
    command = machine.command("exec", job, "--", "true")
    took_ms(command, environment)
    times_ms = [took_ms(command, environment) for _ in range(count)]
    took_ms(machine.command("cancel", job), environment)
    return times_ms


def name_machines(network: Network, files: Path) -> None:
    """Give each machine a name of its own, and the addresses of the others."""
    kit = importlib.import_module("tests.endtoend.test_mpi")
    files.chmod(0o755)
    hosts, dns = files / "hosts", files / "resolv.conf"
    rows = [f"{machine.host} {name}" for name, machine in network.machines.items()]
    hosts.write_text("\n".join(["127.0.0.1 localhost", *rows]) + "\n")
    dns.write_text("")
    for name, machine in network.machines.items():
        inside = kit.INSIDE.format(hosts=hosts, dns=dns, name=name)
        inside = inside.partition(" && for each in ssh")[0] + '; exec "$@"'  # with ssh
        machine.prefix += ("unshare", "--uts", "--mount", "sh", "-c", inside, "sh")


def start_times_s(network: Network, count: int, shape: Sequence[str], command: str) -> list[float]:
    """Return how long a command takes inside of parallel jobs, one after the other."""
    machine = network.machines["m0"]
    script = TIMED.format(command=command)
    words = machine.command("run", "--first", "--no-stdin", *shape, "--", "sh", "-c", script)
    found = []
    for _ in range(count):
        done = subprocess.run(
            words,
            check=False,
            env=machine.environment(),
            cwd=machine.work,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        if done.returncode:
            raise RuntimeError(f"'{command}' failed: {done.stdout}{done.stderr}")
        found.append(int(done.stdout.split()[-1]) / 1e9)
    return found


@contextmanager
def ssh_servers(network: Network) -> Iterator[str]:
    """Run an OpenSSH server of the user on each machine; give the command that reaches them."""
    place, person = network.machines["m0"].work / "ssh", network.person
    place.mkdir(mode=0o700)
    for name in ("host", "own"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
        subprocess.run(key, check=True)
    (place / "config").write_text(
        f"Port {SSH_PORT}\nHostKey {place}/host\nAuthorizedKeysFile {place}/own.pub\n"
        f"PidFile none\nStrictModes no\nUsePAM no\n"
    )
    for path in (place, *place.iterdir()):
        os.chown(path, person.uid, person.gid)
    subprocess.run(["usermod", "--password", "*", person.name], check=True)  # else it is locked
    with ExitStack() as stack:
        for machine in network.machines.values():
            words = machine.command("")[:-2]  # what puts a command there, as the user
            serve = [*words, "/usr/sbin/sshd", "-D", "-e", "-f", str(place / "config")]
            server = subprocess.Popen(serve, stderr=subprocess.DEVNULL)
            stack.callback(server.wait)
            stack.callback(server.terminate)
        time.sleep(SETTLE_S)
        yield (
            f"ssh -F none -p {SSH_PORT} -i {place}/own -o StrictHostKeyChecking=no "
            "-o UserKnownHostsFile=/dev/null -o BatchMode=yes -o LogLevel=ERROR"
        )


def measure(network: Network, options: Options) -> dict[str, Figure]:
    """Measure steps, then programs."""
    count, starts = options.tasks(EXECS, QUICK_EXECS), options.tasks(STARTS, QUICK_STARTS)
    python_ms = [took_ms([sys.executable, "-c", "pass"]) for _ in range(count)]
    result = {"python_p50_ms": median(python_ms)}
    for where in ON:
        result[f"exec_p50_ms_{where}"] = median(exec_times_ms(network, where, count))
        progress(f"steps {where}: {result}")
    result["ratio"] = ratio(result["exec_p50_ms_here"], result["python_p50_ms"])
    work = network.machines["m0"].work
    (work / "meet.c").write_text(MEET)
    for kind in ("openmpi", "mpich"):
        words = [f"mpicc.{kind}", "-o", str(work / f"meet.{kind}"), str(work / "meet.c")]
        subprocess.run(words, check=True)
    wide = ("-n", "8", "--nodes", str(MACHINES))
    alone = start_times_s(network, starts, ("-n", "2", "--nodes", "1"), _mpirun("openmpi"))
    result["alone_p50_s"] = median(alone, 2)
    result["start_p50_s"] = median(start_times_s(network, starts, wide, _mpirun("openmpi")), 2)
    with ssh_servers(network) as ssh:
        by_ssh = f"OMPI_MCA_plm_rsh_agent='{ssh}' {_mpirun('openmpi')}"
        result["ssh_start_p50_s"] = median(start_times_s(network, starts, wide, by_ssh), 2)
    if result["start_p50_s"] is not None and result["ssh_start_p50_s"] is not None:
        result["difference_s"] = round(result["start_p50_s"] - result["ssh_start_p50_s"], 2)
    result["hydra_start_p50_s"] = median(start_times_s(network, starts, wide, _mpirun("mpich")), 2)
    machine = network.machines["m0"]
    program = str(work / "meet.mpich")
    direct = machine.command("run", "--no-stdin", *wide, "--", program)
    direct_ms = [took_ms(direct, machine.environment()) for _ in range(starts)]
    result["pmi_start_p50_s"] = median([each / 1000 for each in direct_ms], 2)
    progress(f"starts: {result}")
    return result


def _mpirun(kind: str) -> str:
    program = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}[kind]
    return f"{program} ./meet.{kind}"


def main() -> None:
    """Measure steps and starts."""
    options = read_options(__doc__ or "")
    facts = machine_facts(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory() as files:
        prepare = partial(name_machines, files=Path(files))
        with live_network(MACHINES, all_accept=True, prepare=prepare) as (network, _):
            time.sleep(SETTLE_S)
            figures = measure(network, options)
    finish({"benchmark": "mpi", **figures, "machine": facts})


if __name__ == "__main__":
    main()
