"""What the ranks of a job on several machines print, and read: on the terminal, and in files."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.endtoend.cluster import Cluster
from tests.support.waiting import until


@pytest.fixture(scope="module")
def pair(person):
    """Two back ends of two cpus, for tests that leave them as they were."""
    made = Cluster(person)
    try:
        yield made.start("b1 b2")
    finally:
        made.stop()


def test_run_labels_the_lines_of_each_rank(pair):
    script = "echo at $IRIAI_NODE_RANK; echo wrong >&2; printf end"
    said = pair.front.call("run", "-n", "4", "--", "sh", "-c", script)
    assert said.returncode == 0, said.stderr
    lines = [f"{rank}: {text}" for rank in range(4) for text in (f"at {rank // 2}", "end")]
    assert sorted(said.stdout.splitlines()) == lines
    assert sorted(said.stderr.splitlines()) == [f"{rank}: wrong" for rank in range(4)]
    plain = pair.front.call("run", "-n", "4", "--no-label", "--", "echo", "x")
    assert plain.stdout == "x\n" * 4


def test_a_range_shows_as_many_ranks_as_started(pair):
    said = pair.front.call("run", "-n", "3-9", "--", "sh", "-c", "echo $IRIAI_RANKS")
    assert sorted(said.stdout.splitlines()) == [f"{rank}: 4" for rank in range(4)]


def test_much_output_of_ranks_elsewhere_comes_whole(pair):
    said = pair.front.call("run", "-n", "4", "--", "seq", "20000")
    lines = said.stdout.splitlines()
    assert len(lines) == 80000
    assert [each for each in lines if each.startswith("3: ")] == [
        f"3: {n}" for n in range(1, 20001)
    ]


def test_input_is_that_of_rank_0_alone(pair):
    said = pair.front.call("run", "-n", "4", "--", "sh", "-c", "wc -l", stdin="a\nb\nc\n")
    assert sorted(said.stdout.split("\n")) == ["", "0: 3", "1: 0", "2: 0", "3: 0"]


def test_the_exit_code_is_that_of_the_rank_that_failed(pair):
    script = "test $IRIAI_RANK = 3 && exit 9; exec sleep 600"
    said = pair.front.call("run", "-n", "4", "--", "sh", "-c", script)
    assert said.returncode == 9
    assert "rank 3" in said.stderr
    both = pair.front.call("run", "-n", "2", "--keep-going", "--", "sh", "-c", "exit $IRIAI_RANK")
    assert both.returncode == 1


def test_an_interrupt_ends_all_ranks(pair):
    front = pair.front
    started = subprocess.Popen(
        front.command("run", "-n", "4", "--", "sh", "-c", "echo up; sleep 600"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=front.work,
        env=front.environment(),
    )
    assert started.stdout is not None
    assert started.stderr is not None
    seen = [started.stdout.readline() for _ in range(4)]
    assert sorted(seen) == [f"{rank}: up\n" for rank in range(4)]
    for _ in range(2):
        started.send_signal(signal.SIGINT)
        started.stderr.readline()
    with started:
        assert started.wait(60) == 130
    until(lambda: not any(row.tasks for row in pair.nodes().values()), "all machines to be free")


def test_logs_has_the_output_of_one_rank(pair):
    front = pair.front
    words = ("submit", "-n", "4", "-o", "of.%r", "--", "sh", "-c", "echo $IRIAI_RANK")
    job = front.call(*words).stdout.strip()
    assert front.call("logs", "-f", "--rank", "2", job).stdout == "2\n"
    assert front.call("logs", "--rank", "3", job).stdout == "3\n"
    gone = front.call("logs", "--rank", "4", job)
    assert gone.returncode == 4
    assert "has no rank 4; it has ranks 0 to 3" in gone.stderr


def test_what_cannot_start_now_is_refused_at_once(pair):
    front = pair.front
    with front.client() as client:
        busy = client.submit(front.draft("sleep", "600"))
        until(lambda: client.show(busy.id).attempts, "the task in the way to run")
    refused = front.call("run", "--immediate", "-n", "4", "--", "true")
    assert refused.returncode == 3
    assert "3 of 4 fit" in refused.stderr
    assert front.call("run", "--immediate", "-n", "3", "--", "true").returncode == 0
    front.call("cancel", str(busy.id))
    assert front.call("wait", "--quiet", str(busy.id)).returncode == 130
