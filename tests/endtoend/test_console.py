"""The rc file and the console of a real machine: settings from lines, and what each does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iriai.model.problem import Refused
from tests.endtoend.installation import IRIAI, Installation
from tests.endtoend.terminal import Terminal
from tests.endtoend.test_identity import say
from tests.endtoend.test_queues import log_of, states, submitted
from tests.support.waiting import until

THREE = """\
# Three queues: by day, by night, closed.
queue unset 1
queue set 0 time_limit_max_s=1h
queue set 1 state=enabled cpu_limit_s=60  # by night

queue set 2 state=disabled
pool set blades memory=64G jobs_max=8
gang set quantum_s=0.5 rows_max=2
"""


def settings(machine: Installation) -> dict[str, dict]:
    return {row["key"]: row for row in say(machine, "config", "show")["settings"]}


def value(machine: Installation, key: str) -> str:
    return settings(machine)[key]["value"]


def console(machine: Installation, text: str, code: int = 0) -> str:
    """What a console says that reads lines from its standard input."""
    said = machine.call("console", "-", person=None, stdin=text)
    assert said.returncode == code, said.stderr
    return said.stdout + said.stderr


def doctor(machine: Installation, subject: str) -> list[dict]:
    return [row for row in say(machine, "doctor")["findings"] if row["subject"] == subject]


@pytest.fixture
def iriai():
    """As root tasks are root's here: who calls is an operator, and nobody else is needed."""
    installation = Installation(None)
    installation.configure("[machine]\ncpus = 1\n[identity]\nminimum_uid = 0\n")
    yield installation
    installation.stop()


def test_an_rc_file_sets_up_queues_and_the_console_changes_them_live(iriai):
    rc = Path(iriai.paths.rc)
    rc.write_text(THREE)
    iriai.start()
    assert states(iriai) == ["active", "enabled", "disabled"]
    found = settings(iriai)
    assert found["queues.1.cpu_limit_s"]["source"] == f"set by {rc}"
    assert (value(iriai, "pools.blades.memory"), value(iriai, "gang.rows_max")) == ("64G", "2")
    assert [row["message"] for row in doctor(iriai, "rc file")] == [
        f"6 lines of {rc} were run at the start"
    ]
    daemon = iriai.pid("daemon")
    with iriai.client() as client:
        waits = submitted(iriai, client, 1)
        with pytest.raises(Refused, match="takes no jobs"):
            submitted(iriai, client, 2)
        with pytest.raises(Refused, match="longer than the 1h00m"):
            submitted(iriai, client, 0, time_limit_s=7200.0)
        assert client.why(waits).reasons[0].rule == "queue-stopped"
        said = console(
            iriai,
            "queue set 1 state=active\nqueue set 2 state=active\n"
            "queue set 0 time_limit_max_s=3h # longer\nqueues\nquit\nqueue set 5 state=active\n",
        )
        assert "Queue 1: state is active" in said
        assert client.wait([waits])[0].exit_code == 0
        assert client.wait([submitted(iriai, client, 2)])[0].exit_code == 0
        assert client.show(submitted(iriai, client, 0, time_limit_s=7200.0)).time_limit_s == 7200.0
    assert states(iriai) == ["active"] * 3
    assert iriai.pid("daemon") == daemon

    iriai.kill("daemon")  # the supervisor starts it again: what operators set since stays
    until(lambda: iriai.answers() and iriai.pid("daemon") != daemon, "the next daemon")
    assert states(iriai) == ["active"] * 3
    iriai.leave_launcher()
    iriai.start()  # a person starts it again
    assert states(iriai) == ["active", "enabled", "disabled"]


def test_a_wrong_line_is_named_and_lines_before_it_hold(iriai):
    rc = Path(iriai.paths.rc)
    rc.write_text(THREE.replace("memory=64G", "memroy=64G"))
    up = iriai.call("up", "--detach", person=None)
    wrong = f"{rc}, line 7: a pool has no 'memroy'"
    assert (up.returncode, wrong in up.stderr) == (0, True)
    assert states(iriai) == ["active", "enabled", "disabled"]
    assert value(iriai, "gang.quantum_s") == "1"
    assert wrong in log_of(iriai)
    assert "4 lines before it hold" in doctor(iriai, "daemon")[0]["message"]
    assert say(iriai, "status")["trouble"]


def test_a_queue_with_jobs_in_it_stays_whatever_the_rc_file_says(iriai):
    iriai.start()
    console(iriai, "queue set 7 state=enabled")
    with iriai.client() as client:
        inside = submitted(iriai, client, 7)
    iriai.leave_launcher()
    Path(iriai.paths.rc).write_text("queue unset 7\nqueue set 1 state=enabled\n")
    iriai.start()
    assert f"line 1: queue 7 would be gone, and jobs are in it: {inside}" in log_of(iriai)
    assert states(iriai)[1::6] == ["active", "enabled"]


def test_what_is_set_of_a_pool_bounds_its_machines_once_claims_leave_it_to_them(iriai):
    iriai.configure(
        "[identity]\nminimum_uid = 0\n[machine]\npool = 'blades'\nmemory = '256M'\n"
        "[pools.blades]\nmemory = '128M'\n"
    )

    def given_away() -> int:
        return say(iriai, "nodes")["rows"][0]["memory_bytes"] >> 20

    iriai.start()
    assert given_away() == 128
    with iriai.client() as client:
        job = client.submit(iriai.draft("sleep", "600", memory_bytes=100 << 20)).id
        until(lambda: client.show(job).row.state == "running", "the job to run")
        console(iriai, "pool set blades memory=64M")
        until(lambda: given_away() == 100, "what the job holds to be all that is given away")
        client.cancel([job])
        until(lambda: given_away() == 64, "the bound")
        console(iriai, "pool set blades memory=192M")
        until(lambda: given_away() == 192, "the next bound")
    iriai.leave_launcher()
    iriai.start()
    assert given_away() == 192


def test_an_rc_file_of_another_place(iriai, tmp_path):
    missing = iriai.call("up", "--detach", "--rc", "night.rc", person=None, cwd=tmp_path)
    assert (missing.returncode, "there is no" in missing.stderr) == (4, True)
    assert iriai.pid("daemon") is None
    night = tmp_path / "night.rc"
    night.write_text("queue set 1 state=enabled\n")
    Path(iriai.paths.rc).write_text("queue set 1 state=disabled\n")
    up = iriai.call("up", "--detach", "--rc", "night.rc", person=None, cwd=tmp_path)
    assert (up.returncode, up.stderr, states(iriai)[1]) == (0, "", "enabled")
    again = iriai.call("up", "--detach", "--rc", "night.rc", person=None, cwd=tmp_path)
    assert f"{night} was not run: 'iriai console {night}' runs it now" in again.stderr


def test_in_a_cluster_the_rc_file_is_not_run_at_a_start_but_by_the_console(iriai):
    Path(iriai.paths.rc).write_text("gang set rows_max=2\nqueue set 1 state=enabled\nqueue set x\n")
    iriai.start()
    say(iriai, "cluster", "create", "lab")
    iriai.leave_launcher()
    iriai.start()
    assert states(iriai) == ["active"] * 3
    assert "in a cluster" in doctor(iriai, "rc file")[0]["message"]
    assert f"{iriai.paths.rc} is not run" in log_of(iriai)
    said = iriai.call("console", iriai.paths.rc, person=None)
    assert said.returncode == 2
    assert f"{iriai.paths.rc}, line 3: " in said.stderr
    assert states(iriai) == ["active", "enabled", "active"]
    assert say(iriai, "cluster", "show")["document_number"] == 2


def test_a_wrong_line_ends_a_file_with_its_exit_code(iriai, tmp_path):
    iriai.start()
    for line, code, words in (
        ("queue set 99 state=active", 4, "there can be no queue 99"),
        ("queue set 1 colour=red", 2, "a queue has no 'colour'"),
        ("submit -- true", 2, "'submit' is no command of the console"),
        ("queue 'set", 2, "a quotation does not end"),
        ("queue sett 1", 2, "no such command"),
        ("gang unset now", 2, "unexpected extra argument"),
    ):
        text = f"# first\ngang set rows_max=3\n{line}\ngang set rows_max=9\n"
        said = console(iriai, text, code=code)
        assert f"standard input, line 3: {words}" in said.replace("got ", "")
        assert value(iriai, "gang.rows_max") == "3"
        console(iriai, "gang unset")
    huge = tmp_path / "huge.rc"
    with huge.open("wb") as file:
        file.truncate(1 << 34)
    refused = say(iriai, "console", str(huge), code=2)["error"]
    assert refused["code"] == "bad-lines"


@pytest.mark.root
def test_the_console_gives_nobody_rights(person, iriai):
    iriai.start()
    said = iriai.call("console", "-", person=person, stdin="jobs\nqueue set 0 state=disabled\n")
    assert said.returncode == 5
    assert f"standard input, line 2: {person.name} may not change queues" in said.stderr
    assert states(iriai) == ["active"] * 3


def test_a_person_types_with_completion_and_history(iriai):
    iriai.start()
    environment = iriai.environment() | {"TERM": "vt220", "INPUTRC": os.devnull}
    terminal = Terminal([IRIAI, "console"], environment, iriai.work)
    try:
        terminal.expect("iriai> ")
        terminal.type("gang set row\t4\n")
        terminal.expect("rows_max is 4")
        terminal.expect("iriai> ")
        terminal.type("queue set 2 sta\ten\t\n")
        terminal.expect("state is enabled")
        terminal.expect("iriai> ")
        terminal.type("queue set 99 state=active\n")
        terminal.expect("there can be no queue 99")
        terminal.expect("iriai> ")
        terminal.type("help\n")
        terminal.expect("gang unset")
        terminal.type("\x10\x10\x10\n")  # Ctrl-P, thrice: the setting of queue 2
        terminal.expect("state is enabled")
        terminal.expect("iriai> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
    finally:
        terminal.close()
    assert states(iriai) == ["active", "active", "enabled"]


def test_a_passphrase_is_typed_once(iriai):
    iriai.start()
    environment = iriai.environment() | {"TERM": "vt220", "INPUTRC": os.devnull}
    made = Terminal([IRIAI, "cluster", "create", "lab", "--passphrase"], environment, iriai.work)
    try:
        made.expect("Passphrase of your operator's key: ")
        made.type("open sesame\n")
        made.expect("Repeat the passphrase: ")
        made.type("open sesame\n")
        assert made.wait() == 0
    finally:
        made.close()
    terminal = Terminal([IRIAI, "console"], environment, iriai.work)
    try:
        terminal.expect("iriai> ")
        terminal.type("gang set rows_max=2\n")
        terminal.expect("Passphrase of your operator's key: ")
        terminal.type("open sesame\n")
        terminal.expect("rows_max is 2 (in document 1 of cluster lab)")
        terminal.expect("iriai> ")
        terminal.type("gang set rows_max=3\n")
        assert "Passphrase" not in terminal.expect("rows_max is 3 (in document 2 of cluster lab)")
        terminal.expect("iriai> ")
        terminal.type("quit\n")
        assert terminal.wait() == 0
    finally:
        terminal.close()
