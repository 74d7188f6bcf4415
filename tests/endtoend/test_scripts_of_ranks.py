"""Scripts for Slurm and PBS that ask for several machines run once, and are told the truth."""

from __future__ import annotations

import pytest

from tests.endtoend.cluster import Cluster

SLURM = """#!/bin/sh
#SBATCH -N 2
#SBATCH --ntasks-per-node 2
#SBATCH -o told.slurm
echo ran $IRIAI_RANK of $IRIAI_RANKS on $IRIAI_NODES
echo nodes $SLURM_NNODES $SLURM_JOB_NUM_NODES
echo tasks $SLURM_NTASKS $SLURM_NPROCS $SLURM_TASKS_PER_NODE $SLURM_PROCID
echo cpus $SLURM_JOB_CPUS_PER_NODE $SLURM_CPUS_ON_NODE $SLURM_CPUS_PER_TASK
echo $SLURM_JOB_NODELIST | tr , '\\n' | wc -l
awk '{print $2}' $IRIAI_HOSTFILE | xargs
"""
PBS = """#!/bin/sh
#PBS -l select=2:ncpus=2:mpiprocs=2
#PBS -l place=scatter
#PBS -o told.pbs
#PBS -j oe
echo ran $IRIAI_RANK of $IRIAI_RANKS on $IRIAI_NODES
echo np $PBS_NP nodes $PBS_NUM_NODES each $PBS_NUM_PPN
wc -l < $PBS_NODEFILE
"""


@pytest.fixture(scope="module")
def pair(person):
    """Two back ends of two cpus."""
    made = Cluster(person)
    try:
        yield made.start("b1 b2")
    finally:
        made.stop()


def told(pair: Cluster, script: str, name: str) -> list[str]:
    """What a script printed."""
    front = pair.front
    said = front.call("submit", "--chdir", str(front.work), "-", stdin=script)
    assert said.returncode == 0, said.stderr
    job = said.stdout.strip()
    assert front.call("wait", "--quiet", job).returncode == 0, front.call("show", job).stdout
    assert (
        front.call("logs", job).stdout.splitlines() == (front.work / name).read_text().splitlines()
    )
    shown = front.call("show", job, "--ranks").stdout
    assert "0-1" in shown
    assert "2-3" in shown
    return (front.work / name).read_text().splitlines()


def test_a_script_for_slurm_has_the_nodes_and_tasks_that_it_asks_for(pair):
    assert told(pair, SLURM, "told.slurm") == [
        "ran 0 of 4 on 2",
        "nodes 2 2",
        "tasks 4 4 2(x2) 0",
        "cpus 2(x2) 2 1",
        "2",
        "slots=2 slots=2",
    ]


def test_a_script_for_pbs_has_the_chunks_that_it_asks_for(pair):
    assert told(pair, PBS, "told.pbs") == [
        "ran 0 of 4 on 2",
        "np 4 nodes 2 each 2",
        "4",
    ]


def test_the_history_has_one_row_with_the_sums_of_all_machines(pair):
    front = pair.front
    words = ("timeout", "--preserve-status", "-s", "INT", "1", "sh", "-c", "while :; do :; done")
    job = front.call("submit", "-n", "4", "--keep-going", "--", *words).stdout.strip()
    front.call("wait", "--quiet", job)
    with front.client() as client:
        detail = client.show(job, ranks=True)
    [whole] = detail.attempts
    assert (whole.ranks, whole.seats, len(detail.seats)) == (4, 2, 2)
    for name in ("cpu_s", "charge_s"):
        parts = [getattr(seat, name) for seat in detail.seats]
        assert all(part > 0.0 for part in parts)
        assert getattr(whole, name) == pytest.approx(sum(parts))
    assert whole.charge_s > 1.5  # four cpus for a second, at half the price off-peak
