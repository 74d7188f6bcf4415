"""Queues of a real machine: what is in a higher one starts first, others wait and say why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iriai.model.problem import NotAllowed, NotFound, Refused
from tests.endtoend.installation import PYTHON, Installation, installed
from tests.endtoend.test_identity import say
from tests.support.waiting import until

CONFIGURATION = """
[machine]
cpus = 1
[order]
age_s = "none"
[queues.1]
time_limit_max_s = "1h"
[queues.2]
state = "enabled"
[queues.3]
state = "disabled"
[queues.4]
group = "root-of-nobody"
[queues.5]
cpu_limit_s = 1
"""
BUSY = "while True: pass"


@pytest.fixture(scope="module")
def machine(person):
    with installed(person, CONFIGURATION) as installation:
        yield installation


def submitted(machine: Installation, client, queue: int, *command: str, **fields) -> str:
    words = command or ("true",)
    return client.submit(machine.draft(*words, queue=queue, output=os.devnull, **fields)).id


@pytest.fixture
def client(machine):
    """The machine is busy until the test has handed in its jobs, and releases it."""
    with machine.client() as client:
        yield client


def busy(machine: Installation, client) -> str:
    job = submitted(machine, client, 0, "sleep", "60")
    until(lambda: client.show(job).row.state == "running", "the cpu to be busy")
    return job


def test_a_higher_queue_starts_first_however_late_it_comes(machine, client):
    first = busy(machine, client)
    low = [submitted(machine, client, 1) for _ in range(3)]
    high = submitted(machine, client, 0)
    [reasons] = [client.why(low[0]).reasons]
    assert "higher-queue" in [each.rule for each in reasons]
    client.cancel([first])
    client.wait([*low, high])
    started = {job: client.show(job).attempts[0].started_wall_s for job in (*low, high)}
    assert min(started, key=started.__getitem__) == high


def test_a_job_in_a_stopped_queue_waits_until_it_is_moved(machine, client):
    job = submitted(machine, client, 2)
    assert [each.rule for each in client.why(job).reasons] == ["queue-stopped"]
    said = machine.call("alter", job, "-q", "1")
    assert f"{job}: queue 2 -> 1" in said.stdout
    assert client.wait([job])[0].exit_code == 0
    assert client.show(job).row.queue == 1
    assert client.show(job).time_limit_s == 3600.0


def test_what_a_queue_does_not_take_is_refused(machine, client):
    for queue, kind, words in (
        (3, Refused, "takes no jobs"),
        (9, NotFound, "there is no queue 9"),
    ):
        with pytest.raises(kind, match=words):
            submitted(machine, client, queue)
    with pytest.raises(Refused, match="longer than the 1h00m"):
        submitted(machine, client, 1, time_limit_s=7200.0)
    said = machine.call("submit", "--queue", "-1", "--", "true")
    assert (said.returncode, "out of range" in said.stderr) == (2, True)


def test_a_task_ends_by_the_cpu_time_of_the_queue_it_came_to(machine, client):
    job = submitted(machine, client, 5, PYTHON, "-c", BUSY, held=True)
    machine.call("alter", job, "--queue", "1")
    client.release([job])
    [ended] = client.wait([job])
    assert client.show(job).row.cause == "cpu-limit"
    assert "CPU time limit of 1.0s exceeded" in ended.message
    assert "cpu time" in machine.call("show", job).stdout


@pytest.mark.root
def test_a_queue_of_another_group_is_not_for_everybody(machine, client):
    with pytest.raises(NotAllowed, match="members of the group root-of-nobody"):
        submitted(machine, client, 4)
    job = submitted(machine, client, 2)
    said = machine.call("alter", job, "--queue", "4")
    assert (said.returncode, "root-of-nobody" in said.stderr) == (5, True)
    assert client.show(job).row.queue == 2
    client.cancel([job])


def test_queues_are_listed_with_what_waits_there(machine, client):
    job = submitted(machine, client, 2)
    said = machine.call("queues")
    rows = [line.split() for line in said.stdout.splitlines()]
    assert rows[3][:4] == ["2", "enabled", "all", "yes"]
    assert rows[4][:2] == ["3", "disabled"]
    client.cancel([job])


def test_a_machine_without_a_cluster_keeps_what_an_operator_sets(iriai):
    iriai.configure("[machine]\ncpus = 1\n[queues.1]\ntime_limit_s = 60\n")
    iriai.start()
    daemon = iriai.pid("daemon")
    say(iriai, "queue", "set", "1", "state=enabled", "time_limit_max_s=2m")
    say(iriai, "queue", "set", "4", "state=active")
    assert states(iriai) == ["active", "enabled", "active", "active", "active"]
    with iriai.client() as client:
        job = submitted(iriai, client, 1)
        assert client.why(job).reasons[0].rule == "queue-stopped"
        assert client.show(job).time_limit_s == 60.0
    iriai.kill("daemon")
    until(iriai.answers, "the next daemon")
    settings = {row["key"]: row for row in say(iriai, "config", "show")["settings"]}
    assert settings["queues.1.state"]["value"] == "enabled"
    assert settings["queues.1.state"]["source"].startswith("set by ")
    assert settings["queues.1.time_limit_s"]["source"].endswith("iriai.toml")
    with iriai.client() as client, pytest.raises(Refused, match="longer than the 2m00s of queue 1"):
        submitted(iriai, client, 1, time_limit_s=600.0)
    daemon = iriai.pid("daemon")
    say(iriai, "queue", "set", "1", "state=active")
    with iriai.client() as client:
        assert client.wait([job])[0].exit_code == 0
        inside = submitted(iriai, client, 4, "sleep", "60")
    refused = say(iriai, "queue", "unset", "4", code=3)["error"]
    assert (refused["code"], inside in refused["message"]) == ("queue-not-empty", True)
    say(iriai, "queue", "unset", "1")
    assert say(iriai, "queues")["rows"][1]["time_limit_max_s"] is None
    assert iriai.pid("daemon") == daemon
    assert "queue 1: state is enabled, time_limit_max_s is 2m, by " in log_of(iriai)


@pytest.mark.root
def test_only_operators_set_queues(iriai):
    iriai.start()
    said = iriai.call("queue", "set", "0", "state=disabled")
    assert (said.returncode, "may not change queues" in said.stderr) == (5, True)
    assert states(iriai) == ["active"] * 3


@pytest.fixture
def member(iriai: Installation):
    """A machine that is a cluster of its own."""
    iriai.configure("[machine]\ncpus = 1\n")
    iriai.start()
    say(iriai, "cluster", "create", "lab")
    return iriai


def edit(member: Installation, text: str) -> int:
    return say(member, "config", "edit", "--file", "-", text=text)["number"]


def log_of(installation: Installation) -> str:
    return (Path(installation.paths.log) / "daemon.log").read_text()


def states(member: Installation) -> list[str]:
    return [row["state"] for row in say(member, "queues")["rows"]]


def test_in_a_cluster_queues_change_while_the_daemon_goes_on(member):
    daemon = member.pid("daemon")
    edit(member, '[queues.1]\nstate = "enabled"\n')
    until(lambda: states(member) == ["active", "enabled", "active"], "the document in force")
    with member.client() as client:
        job = submitted(member, client, 1)
        assert client.why(job).reasons[0].rule == "queue-stopped"
        edit(member, '[queues.1]\nstate = "disabled"\n[queues.4]\ntime_limit_max_s = 60\n')
        assert client.wait([job])[0].exit_code == 0  # what is in it goes on
        with pytest.raises(Refused, match="takes no jobs"):
            submitted(member, client, 1)
        assert client.show(submitted(member, client, 4)).time_limit_s == 60.0
        settings = {row["key"]: row for row in say(member, "config", "show")["settings"]}
        assert settings["queues.1.state"]["source"] == "cluster document 2"
        edit(member, "")
        until(lambda: states(member) == ["active"] * 3, "the next document in force")
        with pytest.raises(NotFound, match="no queue 4"):
            submitted(member, client, 4)
    assert member.pid("daemon") == daemon


def test_another_change_beside_them_takes_a_new_daemon(member):
    daemon = member.pid("daemon")
    edit(member, '[queues.1]\nstate = "enabled"\n[order]\nburst = 3\n')
    until(lambda: member.answers() and member.pid("daemon") != daemon, "the next daemon")
    assert states(member)[1] == "enabled"
