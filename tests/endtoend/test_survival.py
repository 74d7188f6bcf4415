"""Tasks belong to the launcher: who dies, who goes on, and who notices."""

from pathlib import Path

import pytest

from iriai.client import Client
from iriai.wire.reports import Doctor
from tests.endtoend.installation import IS_ROOT
from tests.endtoend.judge import Judge
from tests.fuzz.mendings import without
from tests.support.waiting import is_gone, until


def start_judged(iriai, sleep_s, **fields):
    """A job whose one task has begun; returns the judge, the job's id and the task's process."""
    judge = Judge(iriai)
    with iriai.client() as client:
        job = client.submit(iriai.draft(*judge.command(sleep_s), **fields)).id
    until(judge.lines, "the task's begin")
    return judge, job, judge.lines()[0].pid


@pytest.mark.parametrize("end", ["kill", "upgrade"])
def test_a_new_daemon_takes_up_what_runs(iriai, end):
    iriai.start()
    judge, job, pid = start_judged(iriai, 15)
    daemon = iriai.pid("daemon")
    if end == "kill":
        iriai.kill("daemon")
    else:
        iriai.leave_launcher()
        assert not is_gone(pid)
        iriai.start()
    until(iriai.runs_tasks, "a new daemon")
    assert iriai.pid("daemon") != daemon
    with iriai.client() as client:
        [running] = client.show(job).attempts
        assert (running.state, running.attempt) == ("running", 1)
        assert [line.pid for line in judge.lines()] == [pid]
        client.wait([job])
        judge.decide(client, [job])
        [ended] = client.show(job).attempts
    assert ended.elapsed_s >= 15
    assert [line.pid for line in judge.lines()] == [pid, pid]


def test_a_new_launcher_ends_what_an_old_one_left(iriai):
    iriai.start()
    judge, job, pid = start_judged(iriai, 1)
    iriai.kill("launcher")
    with iriai.client() as client:
        client.wait([job])
        counted = judge.decide(client, [job])
        history = {row.attempt: row.cause for row in client.show(job).attempts}
    assert is_gone(pid)
    assert counted == {"tasks": 1, "began": 2, "lost": 1}
    assert history == {1: "lost", 2: "completed"}


def test_a_new_launcher_ends_what_hid_from_its_task(iriai):
    iriai.start()
    note = iriai.work / "hidden"
    # In a session of its own, with no parent left; as root also without the environment.
    alone = "env -i /usr/bin/setsid" if IS_ROOT else "setsid"
    hide = f'({alone} sh -c \'sleep 1000 & echo $! > "$1"; wait\' x "$1" &); exec sleep 1000'
    with iriai.client() as client:
        draft = iriai.draft("sh", "-c", hide, "x", str(note), max_restarts=0)
        job = client.submit(draft).id
        until(lambda: note.exists() and note.read_text().strip(), "the hidden process")
        iriai.kill("launcher")
        [outcome] = client.wait([job])
    assert outcome.cause == "lost"
    assert is_gone(int(note.read_text()))


def test_what_may_not_be_repeated_is_reported_lost(iriai):
    iriai.start()
    judge, job, _ = start_judged(iriai, 30, max_restarts=0)
    iriai.kill("launcher")
    with iriai.client() as client:
        [outcome] = client.wait([job])
    assert outcome.cause == "lost"
    assert judge.begun() == 1


def test_the_supervisor_killed_leaves_both_and_the_next_finds_them(iriai):
    iriai.start()
    _, job, pid = start_judged(iriai, 2)
    before = iriai.pid("daemon"), iriai.pid("launcher")
    iriai.supervisor.kill()
    iriai.supervisor.wait()
    assert iriai.runs_tasks()
    iriai.start()
    assert (iriai.pid("daemon"), iriai.pid("launcher")) == before
    iriai.kill("daemon")
    until(lambda: iriai.runs_tasks() and iriai.pid("daemon") != before[0], "a new daemon")
    with iriai.client() as client:
        [outcome] = client.wait([job])
    assert outcome.cause == "completed"
    assert is_gone(pid)


def test_an_error_in_the_launcher_is_said_by_status_and_doctor(iriai):
    """Each costs its task; a daemon that comes later is told as well."""
    iriai.start(without("ends of tasks"))
    with iriai.client() as client:
        for _ in range(2):
            [outcome] = client.wait([client.submit(iriai.draft("true")).id])
            assert "an internal error of the launcher" in outcome.message
    iriai.kill("daemon")
    until(iriai.runs_tasks, "a new daemon")
    with Client.connect(iriai.state, follow=False) as root:
        [line] = root.status().trouble
        found = [each.message for each in root.ask(Doctor()).findings if each.level == "trouble"]
    words = "an internal error of iriai in the launcher affected an attempt or a message 2 times"
    assert line.startswith(f"{words}, the last: ZeroDivisionError at ")
    assert line.endswith("please report it, with log/launcher.log")
    assert line in found
    said = Path(iriai.paths.log_of("launcher"))
    assert said.read_text().count("Traceback") == 1
    said.write_text("")  # it is the one that was to be
