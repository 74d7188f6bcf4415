"""`mpirun` of OpenMPI and `mpiexec` of MPICH over several machines that have no ssh."""

from __future__ import annotations

import json
import subprocess
from itertools import product
from pathlib import Path

import pytest

from tests.endtoend.network import Network
from tests.support.waiting import until

pytestmark = pytest.mark.root

MACHINES = ("ume", "take", "matsu", "kiri")
INSIDE = (
    "mount --make-rprivate / && mount --bind {hosts} /etc/hosts && mount --bind {dns} "
    "/etc/resolv.conf && hostname {name} && for each in ssh rsh; do path=$(command -v $each) && "
    'mount --bind /dev/null "$(readlink -f $path)"; done; exec "$@"'
)
"""Makes a machine with a name of its own, which knows the others, and has no ssh."""
PI = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, steps = 1000000;
    double own = 0, pi = 0;
    char host[64] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = rank; i < steps; i += size) {
        double x = (i + 0.5) / steps;
        own += 4 / (1 + x * x) / steps;
    }
    MPI_Reduce(&own, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s\n", rank, size, host);
    if (rank == 0) printf("pi %.6f\n", pi);
    MPI_Finalize();
    return 0;
}
"""
PI_IN_PYTHON = """
from mpi4py import MPI
import socket
world, steps = MPI.COMM_WORLD, 200_000
own = sum(4 / (1 + ((i + 0.5) / steps) ** 2) / steps for i in range(world.rank, steps, world.size))
pi = world.reduce(own)
print(f"rank {world.rank} of {world.size} on {socket.gethostname()}", flush=True)
if world.rank == 0:
    print(f"pi {pi:.6f}", flush=True)
"""
SUM = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size;
    long own, all, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int turn = 0; turn < 60; turn++) {
        if (rank == 0 && turn == 1) { printf("begun\n"); fflush(stdout); }
        own = rank + turn;
        MPI_Allreduce(&own, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
        usleep(100000);
    }
    if (rank == 0) printf("sum %ld\n", sum);
    MPI_Finalize();
    return 0;
}
"""
RIGHT_SUM = "sum 15840"
"""Of 8 ranks and 60 turns."""
RUN = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.mpich"}


@pytest.fixture(scope="module")
def network(people, tmp_path_factory):
    made = Network(people.ann)
    files = tmp_path_factory.mktemp("names")
    files.chmod(0o755)
    for name in MACHINES:
        made.add(name, cpus=2)
    hosts, dns = files / "hosts", files / "resolv.conf"
    rows = ["127.0.0.1 localhost", *(f"{m.host} {name}" for name, m in made.machines.items())]
    hosts.write_text("\n".join(rows) + "\n")
    dns.write_text("")
    for name, machine in made.machines.items():
        inside = INSIDE.format(hosts=hosts, dns=dns, name=name)
        machine.prefix += ("unshare", "--uts", "--mount", "sh", "-c", inside, "sh")
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture(scope="module")
def programs(network):
    """Programs for each of the two that compute pi, and a sum; in the directory of `ume`'s jobs."""
    ume = network.machines["ume"]
    for name, text in {"pi": PI, "sum": SUM}.items():
        (ume.work / f"{name}.c").write_text(text)
    (ume.work / "pi.py").write_text(PI_IN_PYTHON)
    for kind, name in product(RUN, ("pi", "sum")):
        program = ume.work / name
        command = [f"mpicc.{kind}", "-o", f"{program}.{kind}", f"{program}.c"]
        subprocess.run(command, check=True)
    return ume.work


def _said(done: subprocess.CompletedProcess[str]) -> None:
    """Check what all ranks said: each is one of eight, two on each machine, and pi is right."""
    lines = [line for line in done.stdout.splitlines() if line]
    assert "pi 3.141593" in lines, done.stdout + done.stderr
    ranks = sorted(line for line in lines if line.startswith("rank"))
    assert [line.split()[:4] for line in ranks] == [["rank", str(n), "of", "8"] for n in range(8)]
    assert sorted(line.split()[5] for line in ranks) == sorted(MACHINES * 2)
    assert done.returncode == 0


@pytest.mark.parametrize("kind", RUN)
def test_plain_mpirun_starts_two_ranks_on_each_of_four_machines(network, programs, kind):
    words = ("run", "--first", "-n", "8", "--nodes", "4", "--no-stdin", "--", RUN[kind])
    _said(network.machines["ume"].call(*words, f"./pi.{kind}", cwd=programs))


def test_a_program_in_python(network, programs):
    words = ("run", "--first", "-n", "8", "--nodes", "4", "--no-stdin", "--", RUN["openmpi"])
    _said(network.machines["ume"].call(*words, "/usr/bin/python3", "pi.py", cwd=programs))


SLURM = "#!/bin/sh\n#SBATCH --nodes=4 --ntasks-per-node=2\n#SBATCH --output={name}.out\n"
PBS = "#!/bin/sh\n#PBS -l select=4:ncpus=2:mpiprocs=2\n#PBS -o {name}.out\ncd $PBS_O_WORKDIR\n"


@pytest.mark.parametrize("kind", RUN)
@pytest.mark.parametrize("head", [SLURM, PBS], ids=["sbatch", "pbs"])
def test_a_script_for_another_system(network, programs, kind, head):
    ume, name = network.machines["ume"], f"of-{kind}-{len(head)}"
    script = programs / f"{name}.sh"
    script.write_text(head.format(name=name) + f"exec {RUN[kind]} ./pi.{kind}\n")
    submitted = ume.call("submit", "--chdir", str(programs), str(script), cwd=programs)
    assert submitted.returncode == 0, submitted.stderr
    done = ume.call("wait", submitted.stdout.strip())
    output = programs / f"{name}.out"
    if output.exists():
        done.stdout = output.read_text()
    _said(done)


@pytest.mark.parametrize("kind", RUN)
def test_a_host_that_the_user_has_added_is_refused_by_name(network, programs, kind):
    line = {"openmpi": "10.1.1.1 slots=2", "mpich": "10.1.1.1:2"}[kind]
    file = {"openmpi": "$OMPI_MCA_orte_default_hostfile", "mpich": "$HYDRA_HOST_FILE"}[kind]
    script = f"echo {line} >> {file}; timeout 15 {RUN[kind]} -n 10 ./pi.{kind}"
    words = ("run", "--first", "-n", "8", "--nodes", "4", "--no-stdin", "--", "sh", "-c", script)
    done = network.machines["ume"].call(*words, cwd=programs)
    assert done.returncode != 0
    assert "the job has no ranks on 10.1.1.1" in done.stderr
    assert "pi 3" not in done.stdout


def test_no_machine_has_ssh(network):
    words = ("run", "--no-stdin", "--", "sh", "-c", "command -v ssh rsh")
    assert network.machines["take"].call(*words).returncode != 0


def test_a_program_of_openmpi_that_is_started_directly_fails_and_names_mpirun(network, programs):
    words = ("run", "-n", "8", "--nodes", "4", "--no-stdin", "--", "timeout", "20", "./pi.openmpi")
    done = network.machines["ume"].call(*words, cwd=programs)
    assert done.returncode not in (0, 124)
    assert "mpirun" in done.stdout + done.stderr
    assert "pi 3" not in done.stdout


def test_a_program_of_mpich_is_started_directly(network, programs):
    words = ("run", "-n", "8", "--nodes", "4", "--no-stdin", "--no-label", "--")
    _said(network.machines["ume"].call(*words, "timeout", "20", "./pi.mpich", cwd=programs))


@pytest.mark.parametrize(
    "command",
    [("--first", "--", "mpirun.openmpi", "./sum.openmpi"), ("--", "./sum.mpich")],
    ids=["mpirun", "pmi"],
)
def test_a_program_goes_on_while_all_daemons_die_and_come_back(network, programs, command):
    ume = network.machines["ume"]
    output = programs / f"{command[-1][2:]}.out"
    words = ("submit", "-n", "8", "--nodes", "4", "--output", str(output), *command)
    submitted = ume.call(*words, cwd=programs)
    assert submitted.returncode == 0, submitted.stderr
    texts = [output, programs / f"{output.name}.0"]
    until(lambda: "begun" in _text_of(*texts), "the first turns")
    for machine in network.machines.values():
        machine.kill("daemon")
    until(network.is_whole, "the return of all")
    done = ume.call("wait", submitted.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert RIGHT_SUM in _text_of(*texts)


def _text_of(*files: Path) -> str:
    return "".join(file.read_text() for file in files if file.exists())


@pytest.fixture
def queues(network):
    """Queue 0 freezes what runs in queue 1, whose programs take turns."""
    ume = network.machines["ume"]
    ume.as_root("queue", "set", "0", "mode=exclusive")
    ume.as_root("queue", "set", "1", "mode=gang")
    yield ume
    ume.as_root("queue", "unset", "0")
    ume.as_root("queue", "unset", "1")


def test_two_programs_take_turns_and_give_way_to_a_third_in_a_higher_queue(queues, programs):
    """Each has all cpus of all machines while it runs, and each gives the right sum."""

    def submitted(name: str, queue: str) -> tuple[str, Path]:
        output = programs / f"{name}.out"
        words = ("submit", "-n", "8", "--nodes", "4", "--memory", "64M", "--queue", queue)
        program = ("--output", str(output), "--first", "--", "mpirun.openmpi", "./sum.openmpi")
        done = queues.call(*words, *program, cwd=programs)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), output

    def states(*jobs: str) -> list[str]:
        rows = json.loads(queues.call("jobs", "--json").stdout)["rows"]
        known = {row["id"]: row["state"] for row in rows}
        return [known.get(job, "finished") for job in jobs]

    one, two = submitted("one", "1"), submitted("two", "1")
    until(lambda: "begun" in _text_of(one[1]) and "begun" in _text_of(two[1]), "both to run")
    assert "finished" not in states(one[0], two[0]), "one after the other"
    third = submitted("third", "0")
    until(lambda: "begun" in _text_of(third[1]), "the third to run")
    assert states(one[0], two[0]) == ["suspended", "suspended"]
    for job, output in (third, one, two):
        done = queues.call("wait", job)
        assert done.returncode == 0, done.stdout + done.stderr
        assert RIGHT_SUM in _text_of(output)
