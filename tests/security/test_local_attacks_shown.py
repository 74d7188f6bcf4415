"""Attacks by what others read and run: variables, control characters, descriptors, terminals."""

from __future__ import annotations

import os
import pty
import time
from collections.abc import Iterator

import pytest

from iriai.model.problem import Problem
from iriai.model.submission import LENGTH_MAX, Interaction
from iriai.wire.reservations import AskReservations, EndReservation, Reserve
from tests.endtoend.installation import MARK, PATH, PYTHON, Installation
from tests.security.attacker import DONE, Attacker, files_of
from tests.support.people import TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

ROOT = TestPerson("root", 0, 0, ("root",))
HOUR_S = 3_600.0

# --- what programs of root's might act upon -----------------------------------------------------

CUSTOM = """
import os
with open({told!r} % os.getpid(), "w") as file:
    file.write(str(os.getuid()))
"""


def test_variables_that_loaders_and_shells_act_upon(eve: Attacker, attacked: Installation):
    """They have an effect in her own programs alone, be it in a task, a notice or a client."""
    told, traps = eve.directory / "told", eve.directory / "traps"
    for place in (told, traps):
        place.mkdir()
        place.chmod(0o777)
    (traps / "sitecustomize.py").write_text(CUSTOM.format(told=f"{told}/python.%d"))
    shell = f"echo $(id -u) > {told}/shell.$$\n"
    for name in ("sh", "env", "id", "iriai-exec", "python3", "sendmail"):
        (traps / name).write_text(f"#!/bin/sh\n{shell.replace('id', '/usr/bin/id')}")
        (traps / name).chmod(0o755)
    (traps / "profile").write_text(shell)
    env = {
        "PATH": f"{traps}:{PATH}",
        "LD_DEBUG": "files",
        "LD_DEBUG_OUTPUT": f"{told}/loader",
        "PYTHONPATH": str(traps),
        "BASH_ENV": str(traps / "profile"),
        "ENV": str(traps / "profile"),
        "GCONV_PATH": str(traps),
        "LOCPATH": str(traps),
        "TZ": f":{traps}/profile",
        "IFS": "/",
        MARK: str(attacked.directory),
    }
    words = (PYTHON, "-c", "import os; os.system('true')")
    fields = {"cwd": eve.directory, "output": "/dev/null", "notify": "touch noticed"}
    job = eve.submit(attacked.draft(*words, env=env, **fields))
    assert eve.end_of(job).cause == "completed"
    until((eve.directory / "noticed").exists, "the notice")
    assert list(told.glob("python.*"))
    assert list(told.glob("loader.*"))
    said = [path for path in told.iterdir() if not path.name.startswith("loader")]
    assert {path.read_text().strip() for path in said if path.read_text()} == {str(eve.person.uid)}
    assert len(files_of(eve.person.uid, told)) == len(list(told.iterdir()))


NOTICE = "exec > $0.new; id -u; grep NoNewPrivs /proc/self/status; setsid sleep 600 & mv $0.new $0"


def test_a_notice_is_a_task_of_hers(eve: Attacker, attacked: Installation):
    """What is run when a job has finished has her rights, no more, and an end."""
    words = f"sh -c '{NOTICE}' told"
    job = eve.begin("", notify=words)
    assert eve.end_of(job).cause == "completed"
    assert eve.told("told").split() == [str(eve.person.uid), "NoNewPrivs:", "1"]


def test_a_notice_of_a_reservation_is_a_task_of_hers(eve: Attacker, attacked: Installation):
    """Nobody's task is inside, yet what is run has her rights, no more, and an end."""
    words = f"sh -c '{NOTICE}' {eve.directory}/told"
    start_s = time.time() + HOUR_S
    with attacked.client(eve.person) as client:
        named = client.ask(Reserve(start_s, start_s + 60.0, 1, notify=words)).id
        assert eve.told("told").split() == [str(eve.person.uid), "NoNewPrivs:", "1"]
        client.ask(EndReservation(named))


@pytest.mark.parametrize(
    "wrong",
    [
        {"notify": "x" * (LENGTH_MAX + 1)},
        {"notify": "true\nid"},
        {"notify": "mailto:ann@example.org -be"},
        {"every": "FREQ=DAILY;BYDAY=" + "MO," * 100, "zone": "UTC"},
        {"every": "FREQ=SECONDLY", "zone": "UTC"},
        {"every": "daily", "zone": "../../../etc/passwd"},
        {"every": "daily", "zone": "/etc/passwd"},
    ],
    ids=lambda each: " ".join(each.values())[:24],
)
def test_words_of_a_reservation_that_are_none_cost_her_an_error(eve, attacked, wrong):
    start_s = time.time() + HOUR_S
    with attacked.client(eve.person) as client:
        with pytest.raises(Problem) as refused:
            client.ask(Reserve(start_s, start_s + 60.0, 1, **wrong))
        assert len(str(refused.value)) < 1_000
        assert not [
            row for row in client.ask(AskReservations()).rows if row.user == eve.person.name
        ]


# --- what others are shown ----------------------------------------------------------------------

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n2026-11-22 00:00:00,000 launcher INFO forged"


def test_escape_sequences_in_what_others_are_shown(eve: Attacker, attacked: Installation):
    """Control characters of hers are shown, and not obeyed, and begin no line."""
    place = eve.directory / ESCAPE.replace("/", "")
    eve.run("os.mkdir(sys.argv[1])", place)
    jobs = [
        eve.submit(attacked.draft(f"./{ESCAPE}", ESCAPE, cwd=place, output=f"{ESCAPE}.%t")),
        eve.submit(attacked.draft("true", cwd=f"{place}.not", output=ESCAPE)),
        eve.submit(attacked.draft("true", cwd=place, output=f"no/{ESCAPE}")),
        eve.submit(attacked.draft("true", ESCAPE, cwd=place, held=True, notify="true # x")),
    ]
    for job in jobs[:-1]:
        eve.end_of(job)
    with attacked.client(eve.person) as client:
        assert client.show(jobs[0]).row.name.isprintable()
    shown = [("jobs", "--all"), ("jobs", "--all", "--finished"), ("status",), ("usage",)]
    shown += [(word, jobs[0]) for word in ("show", "why", "story", "logs")]
    shown += [("show", job) for job in jobs[1:]]
    for words in shown:
        done = attacked.call(*words, person=ROOT)
        assert_harmless(done.stdout + done.stderr)
    for words in (("jobs", "--all", "--finished"), ("show", jobs[0])):
        assert_harmless(attacked.call(*words, "--json", person=ROOT).stdout)
    assert_harmless(attacked.words())
    refused = attacked.call("submit", "--name", ESCAPE, "--", "true", person=eve.person)
    assert refused.returncode != 0
    assert_harmless(refused.stderr)


def assert_harmless(text: str) -> None:
    """No control character but the end of a line, and none of that of hers."""
    assert not {each for each in text if not each.isprintable()} - {"\n"}, ascii(text)
    assert not [line for line in text.splitlines() if line.startswith("2026-11-22 00:")], text


# --- terminals ---------------------------------------------------------------------------------


TERMINAL = """
import termios
def push(path):
    fd = os.open(path, os.O_RDWR)
    fcntl.ioctl(fd, termios.TIOCSTI, b"x")
def take(path):
    os.setsid()
    fcntl.ioctl(os.open(path, os.O_RDWR), termios.TIOCSCTTY, 1)
attempt("push", push, sys.argv[1])
attempt("read", os.open, sys.argv[1], os.O_RDONLY)
attempt("write", os.open, sys.argv[1], os.O_WRONLY)
if os.fork():
    os.wait()
else:
    attempt("take", take, sys.argv[1])
    os._exit(0)
attempt("own", os.open, "/dev/tty", os.O_RDWR)
attempt("console", push, "/dev/console")
"""


@pytest.fixture
def terminal(attacked: Installation) -> Iterator[str]:
    """A terminal of root's."""
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    os.chmod(name, 0o620)
    yield name
    os.set_blocking(master, False)
    with pytest.raises(BlockingIOError):
        os.read(master, 1)
    os.close(slave)
    os.close(master)


def test_a_terminal_of_roots(eve: Attacker, terminal: str):
    """Nothing is typed on it, read from it, or shown on it; and no task has one unasked."""
    came_of = eve.attempts(TERMINAL, terminal)
    assert len(came_of) == 6
    assert DONE not in came_of.values(), came_of


# --- output -------------------------------------------------------------------------------------

LEASE = """
def lease(fd):
    fcntl.fcntl(fd, 1024, fcntl.F_WRLCK)
signal.signal(signal.SIGIO, signal.SIG_IGN)
print("text", flush=True)
try:
    lease(1)
except OSError as error:
    say("ready", errno.errorcode[error.errno])
else:
    say("ready", "done")
wait_for("go")
"""


def test_a_lease_on_what_others_read(eve: Attacker, attacked: Installation):
    """Whoever opens a file with a lease waits for its owner; readers of root's do not wait."""
    job = eve.begin(LEASE)
    assert eve.told("ready") == DONE
    done = attacked.call("logs", job, person=ROOT)
    assert done.returncode != 0, "it waited until the lease was taken away"
    eve.tell("go")
    assert eve.end_of(job).cause == "completed"
    assert attacked.call("logs", job, person=ROOT).stdout == "text\n"


def test_a_lease_on_what_run_prints(eve: Attacker, attacked: Installation):
    """It is a pipe, on which there is none."""
    job = eve.begin(LEASE, interaction=Interaction.STREAM)
    assert eve.told("ready") == "EINVAL"
    eve.tell("go")
    assert eve.end_of(job).cause == "completed"
