"""A front end and back ends: where work goes, who may link, what happens when one is gone."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.model.problem import NotAllowed, NotFound, Refused, Unreachable
from iriai.wire.joining import MakeToken
from iriai.wire.machines import Drain, Forget, Resume
from tests.client.double import double
from tests.endtoend.cluster import Cluster
from tests.endtoend.installation import IRIAI, Installation, become
from tests.endtoend.judge import Judge
from tests.support.waiting import is_gone, until

SHORT_LEASES = "lease_s = 2\n"

SHORT_SILENCE_S = 1.0
"""Longer than a busy machine keeps a daemon waiting."""


@pytest.fixture
def cluster(person):
    made = Cluster(person)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def four(person):
    """Four back ends, for tests that leave them as they were."""
    made = Cluster(person)
    try:
        yield made.start()
    finally:
        made.stop()


def attempts(client, job):
    return client.show(job).attempts


def submit(cluster, client, *command, **fields):
    return client.submit(cluster.front.draft(*command, **fields)).id


def test_work_is_spread_and_comes_out_right(four):
    front = four.front
    with front.client() as client:
        script = "echo $IRIAI_TASK_ID $GREETING; sleep 0.3"
        environment = {"PATH": "/usr/bin:/bin", "GREETING": "konnichiwa"}
        job = submit(
            four, client, "sh", "-c", script, array=((1, 16, 1),), env=environment, output="%t"
        )
        [outcome] = client.wait([job])
        rows = attempts(client, job)
    assert outcome.cause == "completed"
    assert {row.machine for row in rows} == set(four.backs)
    for task in range(1, 17):
        assert (front.work / str(task)).read_text() == f"{task} konnichiwa\n"


def test_run_and_scripts_work_as_on_one_machine(four):
    said = four.front.call("run", "--", "cat", stdin="through the link")
    assert (said.stdout, said.stderr, said.returncode) == ("through the link", "", 0)
    failed = four.backs["b1"].call("run", "--", "sh", "-c", "echo err >&2; exit 7")
    assert (failed.stderr, failed.returncode) == ("err\n", 7)
    script = Path(four.front.work, "job.sh")
    script.write_text("#!/bin/sh\n#IRIAI --name scripted\necho $0 $1\n")
    with four.front.client() as client:
        job = submit(four, client, "word", script=script.read_bytes(), output="out")
        client.wait([job])
    assert Path(four.front.work, "out").read_text().split()[1] == "word"


def test_a_machine_with_all_parts_may_have_back_ends_too(cluster):
    cluster.front.options = ("--name", "front")
    cluster.add("b1")
    cluster.begin("[machine]\ncpus = 2\n")
    assert set(cluster.nodes()) == {"b1", "front"}
    with cluster.front.client() as client:
        job = submit(cluster, client, "sleep", "0.5", array=((1, 8, 1),), output=os.devnull)
        client.wait([job])
        rows = attempts(client, job)
    assert {row.cause for row in rows} == {"completed"}
    assert {row.machine for row in rows} == {"b1", "front"}


def test_the_least_loaded_for_its_speed_gets_the_work(cluster):
    for name, speed, load in (("slow", 1, "0.5"), ("fast", 2, "0.6"), ("busy", 1, "1.5")):
        cluster.add(name, more=f"speed = {speed}")
        cluster.set_load(name, f"{load} 0 0 1/1 1\n")
    cluster.begin()
    with cluster.front.client() as client:
        placed = []
        for _ in range(3):
            job = submit(cluster, client, "true")
            client.wait([job])
            placed += [row.machine for row in attempts(client, job)]
    assert placed == ["fast"] * 3


def test_a_machine_that_others_load_is_left_alone(cluster):
    for name in ("free", "taken"):
        cluster.add(name, more="load_max = 0.5")
    cluster.set_load("taken", "5.00 4.00 3.00 6/700 4242\n")
    cluster.begin()
    until(lambda: cluster.nodes()["taken"].state == "unavailable", "the load")
    assert cluster.nodes()["taken"].foreign_load == 5.0
    with cluster.front.client() as client:
        job = submit(cluster, client, "sleep", "0.1", array=((1, 8, 1),), output=os.devnull)
        client.wait([job])
        assert {row.machine for row in attempts(client, job)} == {"free"}


@pytest.mark.root  # others are operators of their own machines
def test_a_drained_machine_ends_what_runs_and_starts_nothing(cluster):
    cluster.start("b1 b2")
    front, judge = cluster.front, Judge(cluster.front)
    assert front.call("drain", "b1", "--reason", "new disk").returncode == 5
    with front.client() as client:
        running = submit(cluster, client, *judge.command(3.0), array=((1, 4, 1),))
        until(lambda: judge.begun() == 4, "four tasks")
        with Client.connect(front.state) as root:
            root.ask(Drain("b1", "new disk"))
        row = cluster.nodes()["b1"]
        assert (row.state, row.tasks) == ("drained", 2)
        assert "new disk" in row.reason
        cluster.backs["b1"].kill("daemon")
        client.wait([running])
        judge.decide(client, [running])
        until(cluster.is_whole, "the return of b1")
        later = submit(cluster, client, "true", array=((1, 6, 1),), output=os.devnull)
        client.wait([later])
        assert {row.machine for row in attempts(client, later)} == {"b2"}
        with Client.connect(front.state) as root:
            root.ask(Resume("b1"))
        after = submit(cluster, client, "sleep", "0.3", array=((1, 4, 1),), output=os.devnull)
        client.wait([after])
        assert {row.machine for row in attempts(client, after)} == {"b1", "b2"}


@pytest.mark.parametrize(
    ("victim", "part"), [("b1", "daemon"), ("b1", "launcher"), ("front", "daemon")]
)
def test_whoever_is_killed_every_task_ends_once(cluster, victim, part):
    cluster.start("b1 b2")
    judge = Judge(cluster.front)
    with cluster.front.client() as client:
        job = submit(cluster, client, *judge.command(1.0), array=((1, 10, 1),), output=os.devnull)
    until(lambda: judge.begun() >= 4, "the first tasks")
    cluster.machine(victim).kill(part)
    until(cluster.is_whole, "the return")
    with cluster.front.client() as client:
        client.wait([job])
        counted = judge.decide(client, [job])
    assert (counted["lost"] > 0) is (part == "launcher")


def test_a_machine_that_is_stopped_is_away_and_comes_back(cluster):
    cluster.silence_s = SHORT_SILENCE_S
    cluster.start("b1 b2")
    judge = Judge(cluster.front)
    with cluster.front.client() as client:
        first = submit(cluster, client, *judge.command(1.0), array=((1, 4, 1),), output=os.devnull)
        until(lambda: judge.begun() == 4, "the first tasks")
        with cluster.stopped("b1", "daemon"):
            until(lambda: cluster.nodes()["b1"].state == "away", "the silence")
            meanwhile = submit(cluster, client, "true", array=((1, 6, 1),), output=os.devnull)
            client.wait([meanwhile])
            assert {row.machine for row in attempts(client, meanwhile)} == {"b2"}
        until(cluster.is_whole, "the return of b1")
        client.wait([first])
        assert judge.decide(client, [first])["lost"] == 0


def test_a_front_end_that_was_stopped_goes_on(cluster):
    cluster.silence_s = SHORT_SILENCE_S
    cluster.start("b1")
    judge = Judge(cluster.front)
    with cluster.front.client() as client:
        job = submit(cluster, client, *judge.command(0.5), array=((1, 6, 1),), output=os.devnull)
        until(lambda: judge.begun() == 2, "the first tasks")
        back = Client.connect(cluster.backs["b1"].state, follow=False)
        with cluster.stopped("front", "daemon"), back:
            until(lambda: not back.status().links[0].is_up, "the silence")
            assert "not answered" in back.status().links[0].words
        client.wait([job])
        assert judge.decide(client, [job])["lost"] == 0


def begin_on_b1(cluster, client, judge, sleep_s):
    """Two tasks that fill b1, and a b2 that is empty; returns the job and the processes."""
    with Client.connect(cluster.front.state) as root:
        root.ask(Drain("b2", "for a moment"))
        job = submit(
            cluster, client, *judge.command(sleep_s), array=((1, 2, 1),), output=os.devnull
        )
        until(lambda: judge.begun() == 2, "two tasks")
        root.ask(Resume("b2"))
    assert {row.machine for row in attempts(client, job)} == {"b1"}
    return job, [line.pid for line in judge.lines()]


def test_a_machine_stopped_past_its_lease_lets_its_tasks_be_run_elsewhere(cluster):
    cluster.silence_s = SHORT_SILENCE_S
    cluster.start("b1 b2", jobs=SHORT_LEASES)
    judge = Judge(cluster.front)
    with cluster.front.client() as client:
        job, on_b1 = begin_on_b1(cluster, client, judge, 6.0)
        with cluster.stopped("b1", "daemon"):
            until(lambda: all(map(is_gone, on_b1)), "the launcher's end of what has no lease")
            assert judge.begun() == 2
            until(lambda: judge.begun() == 4, "the same tasks on b2")
        until(cluster.is_whole, "the return of b1")
        client.wait([job])
        counted = judge.decide(client, [job])
    assert counted["lost"] == 2


def test_a_launcher_that_wakes_after_the_lease_ends_its_tasks_first(cluster):
    cluster.start("b1 b2", jobs=SHORT_LEASES)
    judge = Judge(cluster.front)
    with cluster.front.client() as client:
        job, on_b1 = begin_on_b1(cluster, client, judge, 30.0)
        with cluster.stopped("b1", "launcher"), cluster.stopped("b1", "daemon"):
            until(lambda: judge.begun() == 4, "the same tasks on b2")
            # Nobody was there to end them.
            assert not any(map(is_gone, on_b1))
        until(lambda: all(map(is_gone, on_b1)), "their end")
        client.cancel([job])
        client.wait([job])


def forget(cluster, name):
    with Client.connect(cluster.front.state) as root:
        root.ask(Forget(name))


@pytest.mark.root  # others are operators of their own machines
def test_nobody_but_an_operator_has_a_machine_forgotten(four):
    said = four.front.call("nodes", "--forget", "b1")
    assert said.returncode == 5
    with pytest.raises(NotFound, match="b9"):
        forget(four, "b9")
    assert set(four.nodes()) == set(four.backs)


def test_a_machine_that_is_gone_for_good_is_ejected(cluster):
    cluster.start("b1 b2")
    b1 = cluster.backs["b1"]
    with pytest.raises(Refused, match="b1 is a member of the cluster, and alive"):
        forget(cluster, "b1")
    b1.stop_processes()
    until(lambda: cluster.nodes()["b1"].member == "dead", "its absence")
    with pytest.raises(Refused, match="members remove it by themselves"):
        forget(cluster, "b1")
    eject = [*cluster.front.prefix, IRIAI, "eject", "b1", "--reason", "sold"]
    subprocess.run(eject, env=cluster.front.environment(), check=True)
    forget(cluster, "b1")
    assert set(cluster.nodes()) == {"b2"}
    cluster.front.stop_processes()
    cluster.front.start()
    b1.begin()
    until(lambda: set(cluster.nodes()) == {"b2"}, "the link of the other")
    until(lambda: "b1 was ejected" in trouble_of(b1), "that it knows")
    assert set(cluster.nodes()) == {"b2"}


def test_a_second_machine_of_a_name_is_turned_away(cluster):
    cluster.start("b1")
    second = Installation(cluster.person, *cluster.backs["b1"].options)
    second.begin()
    try:
        until(lambda: "another key" in trouble_of(second), "its refusal")
        assert second.call("doctor").stdout.count("there is a machine named b1") == 1
        assert cluster.is_whole()
    finally:
        second.stop()


def trouble_of(machine):
    try:
        with Client.connect(machine.state, follow=False) as client:
            return "\n".join(client.status().trouble)
    except Unreachable:
        return ""


def test_a_back_end_says_that_its_front_end_has_another_version(cluster):
    front = cluster.front.state

    def refuse(_):
        raise Refused("other-version", "b1 speaks version 1, the front end version 2", "install")

    back = Installation(cluster.person, "--name", "b1", "--parts", "node", "--home", str(front))
    try:
        with double(front, refuse):
            Path(cluster.front.paths.daemon_socket).chmod(0o666)
            back.begin()
            until(lambda: "the front end version 2; install" in trouble_of(back), "the refusal")
            assert back.call("doctor").stdout.count("the front end version 2") == 1
    finally:
        back.stop()


@pytest.mark.root
def test_somebody_else_cannot_be_a_back_end(four, people):
    request = MakeToken("join", 60.0, machine="b8", address="unix:/nowhere")
    with four.front.client(people.bob) as client, pytest.raises(NotAllowed):
        client.ask(request)
    with (
        socket.socket(socket.AF_UNIX) as stranger,
        become(people.bob),
        pytest.raises(PermissionError),
    ):
        stranger.connect(four.front.paths.links_socket)
    assert "b8" not in four.nodes()


def test_what_up_was_told_is_remembered(cluster):
    cluster.start("b1")
    back = cluster.backs["b1"]
    words = ["--state", str(back.state), "up", "--detach", "--name", "b2"]
    said = subprocess.run([IRIAI, *words], capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert "parts node" in said.stderr
    back.stop_processes()
    back.options = ()
    back.start()
    until(cluster.is_whole, "the link")


def test_use_costs_what_the_front_end_says(cluster):
    cluster.add("b1")
    cluster.begin("[order]\nidle_weight = 3\n")
    with cluster.front.client() as client:
        job = submit(cluster, client, "sleep", "0.5")
        client.wait([job])
        [row] = attempts(client, job)
    assert row.charge_s == pytest.approx(3 * sum(factor * time_s for factor, time_s in row.factors))
