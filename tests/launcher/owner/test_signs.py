"""What shows that the owner is there, and what does not, with real terminals of a machine."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import Enforced, SetStandingOrder
from iriai.launcher.owner.sensor_process import PAUSE_S
from iriai.model.submission import Interaction
from iriai.system.clock import steady_s
from iriai.system.procfs import read_process
from tests.launcher.harness import Lab, Machine, attempt, is_running, until
from tests.launcher.owner.desk import Typing
from tests.launcher.owner.used import (
    INPUT,
    OWNER,
    SIGN_PAUSE_S,
    START,
    TERMINAL,
    UsedLab,
    sensors_of,
)

OPENS = """
import fcntl, os, struct, sys, time
pts, count = sys.argv[1], int(sys.argv[2])
def terminal():
    master = os.open(pts + "/ptmx", os.O_RDWR | os.O_NOCTTY)
    number, = struct.unpack("i", fcntl.ioctl(master, 0x80045430, bytes(4)))
    fcntl.ioctl(master, 0x40045431, bytes(4))
    return master, os.open(f"{pts}/{number}", os.O_RDWR | os.O_NOCTTY)
terminals = [terminal() for _ in range(count)]
for number in range(1_000_000):
    for master, slave in terminals:
        os.write(master, b"x\\n")
        os.read(slave, 16)
    if number == 3:
        os.rename(__import__("tempfile").mkstemp(dir=".")[1], "typed")
    time.sleep(0.001)
"""
"""Types at so many terminals of its own, as `script`, `tmux` and `expect` do."""


def opens(used: UsedLab, count: int = 1, **more: object):
    """A task that has typed at terminals of its own."""
    task = used.launch(used.python(OPENS, str(used.desk.pts), str(count), output="", **more))
    until((used.folder / "typed").exists, "its typing")
    return task


def test_who_types_is_noticed_and_what_prints_is_not(used: UsedLab):
    terminal = used.desk.terminal()
    used.watch()
    before = used.seen.signs
    terminal.print()
    used.nothing_is_told()
    asked_s = steady_s()
    terminal.type()
    used.await_sign(TERMINAL, before)
    told = {sign.kind: sign.at_s for sign in used.seen.last}
    assert asked_s <= told[TERMINAL] <= steady_s()


def test_a_terminal_that_comes_later_is_noticed(used: UsedLab):
    used.watch()
    for _ in range(2):
        time.sleep(SIGN_PAUSE_S)
        used.type(used.desk.terminal())


def test_terminals_that_a_task_opens_do_not_count(used: UsedLab):
    before_it = opens(used)
    used.watch()
    (used.folder / "typed").unlink()
    after_it = opens(used)
    used.nothing_is_told()
    assert TERMINAL not in [sign.kind for sign in used.seen.last]
    used.type(used.desk.terminal())
    used.told(before_it, OWNER)
    used.told(after_it, OWNER)
    used.cancel(before_it, after_it)


def test_a_terminal_whose_opener_has_left_its_session_does_not_count(used: UsedLab):
    """Its parent ends, too: it is found all the same, since the launcher takes in its orphans."""
    used.watch()
    text = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n{OPENS}"
    wrapped = used.spec("sh", "-c", 'python3 -c "$1" "$2" 1; sleep 600', "sh", text)
    command = (*wrapped.command, str(used.desk.pts))
    task = used.launch(used.spec(*command, output=""))
    until((used.folder / "typed").exists, "its typing")
    used.nothing_is_told()
    assert TERMINAL not in [sign.kind for sign in used.seen.last]
    used.cancel(task)


@pytest.mark.root
def test_the_terminal_of_an_interactive_task_does_not_count(plain_machine: Machine):
    """Its master is the launcher's, and the daemon's. The launcher has a /dev/pts of its own."""
    words, mounts = plain_machine.command(), "mount -t devpts -o newinstance,ptmxmode=0666 devpts"
    apart = ["unshare", "-m", "sh", "-c", f'{mounts} /dev/pts && exec "$@"', "sh", *words]
    plain_machine.command = lambda: apart  # type: ignore[method-assign]
    lab = Lab(plain_machine.start())
    lab.link.watch_owner()
    lab.link.until(lambda: lab.link.seen and lab.link.seen[-1].signs, "the begin")
    lab.link.watch_owner(signs=1, are_over=True)
    text = "while read line; do echo $line >> typed; done"
    task = lab.launch(lab.spec("sh", "-c", text, interaction=Interaction.TERMINAL))
    lab.link.until(lambda: task in lab.link.ends, "its terminal")
    for _ in range(3):
        os.write(lab.link.ends[task]["tty"], b"x\n")
        time.sleep(0.1)
    until((lab.folder / "typed").exists, "its reading")
    plain_machine.wait_until_read(lab.link)
    assert [sign.kind for sign in lab.link.seen[-1].last] == [START]
    typing = Typing(Path(f"/proc/{plain_machine.process.pid}/root/dev/pts"))
    time.sleep(0.3)  # until it is watched
    typing.type()
    lab.link.until(lambda: lab.link.seen[-1].signs == 2, "a sign of another's terminal")
    typing.close()


def test_hundreds_of_terminals_of_a_task_cost_it_alone(plain_used: UsedLab):
    used = plain_used
    terminal = used.desk.terminal()
    used.watch()
    (sensors,) = sensors_of(used.machine)
    used.type(terminal)
    used.release()
    task = opens(used, 400)
    begun_s, used_s = time.monotonic(), cpu_s(sensors)
    time.sleep(2.0)
    assert cpu_s(sensors) - used_s < 0.5 * (time.monotonic() - begun_s)
    before = used.seen.signs
    used.nothing_is_told()
    terminal.type()
    used.await_sign(TERMINAL, before)
    used.cancel(task)


def cpu_s(pid: int) -> float:
    """The processor time that a process has used."""
    found = read_process(pid)
    assert found is not None
    return found.cpu_s


# --- input devices -------------------------------------------------------------------------------


def test_a_device_that_comes_is_watched_and_one_that_goes_is_left_out(used: UsedLab):
    used.watch()
    used.desk.add_device("event7")
    used.link.until(lambda: "2 devices" in note(used), "another device")
    before = used.seen.signs
    used.desk.press("event7")
    used.await_sign(INPUT, before)
    used.desk.remove_device("event7")
    used.link.until(lambda: "1 device " in note(used), "its end")
    used.use()
    used.desk.remove_device("event0")
    used.link.until(lambda: not works(used, INPUT), "the end of the last")
    assert works(used, TERMINAL)
    used.desk.add_device("event0")
    used.link.until(lambda: works(used, INPUT), "a device again")
    used.use()


def note(used: UsedLab) -> str:
    return next(each.note for each in used.seen.sensors if each.kind is INPUT)


def works(used: UsedLab, kind: object) -> bool:
    return next(each.works for each in used.seen.sensors if each.kind is kind)


def test_who_goes_on_is_told_once_a_second_and_costs_little(used: UsedLab):
    used.watch()
    (sensors,) = sensors_of(used.machine)
    before, used_s, begun_s = used.seen.signs, cpu_s(sensors), time.monotonic()
    while time.monotonic() < begun_s + 3.0:
        used.desk.press(count=20)
        time.sleep(0.002)
    used.machine.wait_until_read(used.link)
    lasted_s = time.monotonic() - begun_s
    assert 2 <= used.seen.signs - before <= lasted_s + 2
    assert cpu_s(sensors) - used_s < 0.2 * lasted_s


# --- the process ---------------------------------------------------------------------------------


def test_the_process_is_replaced_when_it_is_killed_and_that_is_a_sign(used: UsedLab):
    task = used.begin()
    used.runs()
    used.watch()
    for _ in range(3):
        (first,), before = sensors_of(used.machine), used.seen.signs
        os.kill(first, signal.SIGKILL)
        used.link.until(lambda: not works(used, INPUT), "word of its end")
        used.link.until(lambda: works(used, INPUT), "the next one")
        used.await_sign(START, before)
        used.told(task, OWNER)
        used.release()
        used.told(task)
        assert sensors_of(used.machine) != [first]
    used.use()
    used.cancel(task)


def test_starts_are_a_second_apart(plain_used: UsedLab):
    used = plain_used
    used.watch()
    begun_s = time.monotonic()
    for _ in range(3):
        (first,) = sensors_of(used.machine)
        os.kill(first, signal.SIGKILL)
        used.link.until(lambda: not works(used, INPUT), "word of its end")
        used.link.until(lambda: works(used, INPUT), "the next one")
    assert time.monotonic() - begun_s > 2 * PAUSE_S


def test_a_task_that_ends_or_stands_leaves_the_process_alone(used: UsedLab):
    """Without control groups it is told from the orphans of tasks, whose user it may have."""
    task = used.begin()
    used.runs()
    used.watch()
    (sensors,) = sensors_of(used.machine)
    used.use()
    used.told(task, OWNER)
    used.use()
    used.release()
    used.told(task)
    used.cancel(task)
    assert is_running(sensors)
    used.use()


def test_it_ends_with_a_launcher_that_is_shut_down(plain_used: UsedLab):
    used = plain_used
    used.watch()
    (sensors,) = sensors_of(used.machine)
    assert used.machine.process is not None
    used.machine.process.terminate()
    assert used.machine.wait() == 0
    until(lambda: not is_running(sensors), "its end")


def test_it_has_one_socket_of_the_launcher_s_and_one_for_session_agents(plain_used: UsedLab):
    used = plain_used
    used.watch()
    (sensors,) = sensors_of(used.machine)
    names = [os.readlink(f"/proc/{sensors}/fd/{fd}") for fd in os.listdir(f"/proc/{sensors}/fd")]
    kinds = sorted({name.partition(":")[0] for name in names if not name.startswith("/")})
    assert kinds == ["anon_inode", "socket"]
    sockets = [name[len("socket:[") : -1] for name in names if name.startswith("socket")]
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()]
    places = [row[7:] for row in rows if row[6] in sockets]
    assert sorted(places) == [[], [f"{used.machine.state}/sessions.sock.new"]]
    files = {name for name in names if name.startswith("/")}
    own = {"/dev/null", str(used.machine.log), str(used.desk.input / "event0")}
    assert files <= own


def test_doctor_is_told_what_watches(plain_used: UsedLab):
    used, rows = plain_used, list[str]()
    used.link.watch_owner()
    used.await_sign(START)
    while "sensors: terminal, input" not in rows:
        message = used.link.receive()
        if isinstance(message, Enforced) and message.row.limit == "owner-signs":
            rows.append(message.row.by)
    used.desk.remove_device()
    used.link.until(lambda: not works(used, INPUT), "its end")
    welcome = used.machine.attach().welcome
    row = next(each for each in welcome.enforcement if each.limit == "owner-signs")
    assert row.by == "sensors: terminal"
    assert "input: no device in" in row.note


# --- hostile -------------------------------------------------------------------------------------


def test_an_order_with_many_exempt_attempts_is_obeyed(plain_used: UsedLab):
    used = plain_used
    task = used.begin()
    used.runs()
    used.watch()
    used.link.watch_owner(*[attempt(1_000_000 + each) for each in range(100_000)])
    used.use()
    used.told(task, OWNER)
    used.cancel(task)


def test_wrong_numbers_close_the_connection_and_change_nothing(plain_used: UsedLab):
    used = plain_used
    task = used.begin()
    used.runs()
    used.watch()
    used.use()
    used.told(task, OWNER)
    for wrong in (
        SetStandingOrder(-1, True, (), 0, True),
        SetStandingOrder(2**60, True, (), 0, True),
        SetStandingOrder(5, True, (), -7, True),
        SetStandingOrder(5, True, ("ume",), 0, True),  # type: ignore[arg-type]
    ):
        link = used.machine.attach()
        link.send(wrong)
        while link.receive() is not None:
            pass
    used.link = used.machine.attach()
    used.machine.wait_until_read(used.link)
    assert used.link.frozen[-1].reasons == (OWNER,)
    used.stands()
    used.cancel(task)


def test_many_orders_start_one_process(plain_used: UsedLab):
    used = plain_used
    for _ in range(200):
        used.link.watch_owner()
    used.await_sign(START)
    assert len(sensors_of(used.machine)) == 1
