"""Jobs of several ranks on several machines: all start, or none."""

from __future__ import annotations

import subprocess

import pytest

from tests.endtoend.cluster import Cluster
from tests.launcher.pmi.test_mpi_programs import PI
from tests.support.waiting import until


@pytest.fixture(scope="module")
def four(person):
    """Four back ends of two cpus, for tests that leave them as they were."""
    made = Cluster(person)
    try:
        yield made.start()
    finally:
        made.stop()


def test_eight_ranks_run_on_four_machines(four):
    front = four.front
    script = "echo $IRIAI_RANK $IRIAI_RANKS $IRIAI_NODE_RANK $IRIAI_LOCAL_RANK > rank.$IRIAI_RANK"
    said = front.call("submit", "-n", "8", "--", "sh", "-c", script)
    assert said.returncode == 0, said.stderr
    job = said.stdout.strip()
    assert front.call("wait", "--quiet", job).returncode == 0
    found = [(front.work / f"rank.{rank}").read_text().split() for rank in range(8)]
    assert [each[:2] for each in found] == [[str(rank), "8"] for rank in range(8)]
    assert sorted(each[2:] for each in found) == [
        [str(n), str(m)] for n in range(4) for m in (0, 1)
    ]


def test_the_failure_of_a_rank_ends_the_others(four):
    front = four.front
    script = "test $IRIAI_RANK != 5 || exit 7; exec sleep 600"
    job = front.call("submit", "-n", "8", "--", "sh", "-c", script).stdout.strip()
    assert front.call("wait", "--quiet", job).returncode == 7
    until(lambda: not any(row.tasks for row in four.nodes().values()), "all machines to be free")


def test_what_does_not_fit_now_waits_and_starts_nowhere(four):
    front = four.front
    with front.client() as client:
        busy = client.submit(front.draft("sleep", "600"))
        until(lambda: client.show(busy.id).attempts, "the task in the way to run")
    wide = front.call("submit", "-n", "8", "--", "sh", "-c", "touch wide").stdout.strip()
    why = front.call("why", wide)
    assert "7 of 8 fit" in why.stdout, why.stdout
    front.call("cancel", str(busy.id))
    assert front.call("wait", "--quiet", wide).returncode == 0


def test_a_program_of_mpich_is_started_without_mpiexec(four, tmp_path):
    front = four.front
    (tmp_path / "pi.c").write_text(PI)
    subprocess.run(
        ["mpicc.mpich", "-o", str(front.work / "pi"), str(tmp_path / "pi.c")], check=True
    )
    said = front.call("run", "-n", "8", "--", "./pi")
    assert (said.returncode, said.stdout) == (0, "0: pi 3.141593 of 8\n"), said.stderr
    said = front.call("run", "-n", "8", "--", "./pi", "5")
    assert said.returncode == 7, said.stdout + said.stderr
    until(lambda: not any(row.tasks for row in four.nodes().values()), "all machines to be free")


def test_where_ranks_are_is_shown_while_they_run_and_afterwards(four):
    front = four.front
    job = front.call("submit", "-n", "7", "--", "sh", "-c", "until test -e go; do sleep 0.1; done")
    name = job.stdout.strip()
    with front.client() as client:
        until(lambda: client.show(name).row.state == "running", "the start")
        seats = client.show(name, ranks=True).seats
        assert [(each.rank, each.ranks) for each in seats] == [(0, 2), (2, 2), (4, 2), (6, 1)]
        assert {each.state for each in seats} == {"started"}
        (front.work / "go").touch()
        assert front.call("wait", "--quiet", name).returncode == 0
        ended = client.show(name, ranks=True).seats
    assert [(each.machine, each.rank, each.ranks) for each in ended] == [
        (each.machine, each.rank, each.ranks) for each in seats
    ]
    assert {each.cause for each in ended} == {"completed"}
    assert all(each.elapsed_s > 0 for each in ended)
    shown = front.call("show", name, "--ranks").stdout
    assert "4-5" in shown


def test_what_no_pool_could_hold_is_refused_with_what_one_could(four):
    refused = four.front.call("submit", "-n", "9", "--", "true")
    assert refused.returncode == 3
    assert "could hold 8 ranks; ask for -n 8" in refused.stderr


def test_the_output_of_every_rank_is_shown(four):
    front, script = four.front, "echo out $IRIAI_RANK; echo err $IRIAI_RANK >&2"
    said = front.call("run", "-n", "8", "--", "sh", "-c", script)
    assert sorted(said.stdout.splitlines()) == [f"{rank}: out {rank}" for rank in range(8)]
    assert sorted(said.stderr.split()) == sorted(
        word for rank in range(8) for word in (f"{rank}:", "err", str(rank))
    )
    job = front.call("submit", "-n", "8", "--", "sh", "-c", "echo $IRIAI_RANK").stdout.strip()
    assert front.call("wait", "--quiet", job).returncode == 0
    shown = front.call("logs", job).stdout.splitlines()
    assert {line for line in shown if line.isdecimal()} == {str(rank) for rank in range(8)}
    assert sum(line.startswith("==>") for line in shown) == 4
