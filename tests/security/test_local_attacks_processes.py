"""Attacks on processes of root's and of others: their memory, descriptors, signals and priority."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endtoend.installation import Installation
from tests.security.attacker import DONE, Attacker, Working, pids_of, processes_of, working
from tests.support.people import TestPerson
from tests.support.waiting import until

pytestmark = pytest.mark.root

TO_ENTER_A_NAMESPACE = 1 << 18 | 1 << 21
"""CAP_SYS_CHROOT and CAP_SYS_ADMIN."""


@pytest.fixture
def victims(attacked: Installation) -> Iterator[list[int]]:
    """Processes of root's, and a task of Ann's that is there to its end."""
    with working(attacked) as task:
        yield [*(pid for pid in pids_of(attacked).values() if pid), task.pid]


@pytest.fixture
def anns(attacked: Installation) -> Iterator[Working]:
    """A task of Ann's that is there to its end."""
    with working(attacked) as task:
        yield task


def assert_only_her_own(came_of: dict[str, str], victims: list[int]) -> None:
    """Each attempt (named WHAT PID) failed, but for those on Eve herself."""
    own = {what: result for what, result in came_of.items() if what.endswith(" own")}
    others = {what: result for what, result in came_of.items() if what not in own}
    assert set(own.values()) == {DONE}, own
    assert len(others) == len(own) * len(victims), came_of
    assert DONE not in others.values(), others


LOOK = """
def look(pid, name):
    path = "/proc/%s/%s" % (pid, name)
    if name in ("root", "cwd", "exe"):
        os.readlink(path)
    elif os.path.isdir(path):
        for each in os.listdir(path)[:1]:
            os.readlink(path + "/" + each)
    else:
        with open(path, "rb", buffering=0) as file:
            file.seek(0 if name != "mem" else ctypes.addressof(libc.syscall))
            file.read(1)
names = ("mem", "environ", "maps", "fd", "map_files", "root", "cwd", "exe", "io", "auxv")
for name in names:
    for pid in sys.argv[1:]:
        attempt(name + " " + pid, look, pid, name)
    if name != "map_files":
        attempt(name + " own", look, "self", name)
"""


def test_what_the_kernel_shows_of_a_process(eve: Attacker, victims: list[int]):
    """Memory, environment, descriptors and root of another's process are not to be seen."""
    came_of = eve.attempts(LOOK, *victims)
    came_of.update({"map_files own": DONE})  # of her own only with a capability
    assert_only_her_own(came_of, victims)


CONTROL = """
ATTACH, SEIZE, DETACH = 16, 0x4206, 17
READ, WRITE, OPEN, GET = 310, 311, 434, 438
own = os.fork()
if own == 0:
    time.sleep(600)
def trace(request, pid):
    call(101, request, pid, 0, 0)
    if request == ATTACH:
        os.waitpid(pid, 0)
    else:
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, 0)
    call(101, DETACH, pid, 0, 0)
    os.kill(pid, signal.SIGCONT)
held = ctypes.create_string_buffer(8)
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
here = Piece(ctypes.addressof(held), 8)
def copy(number, pid):
    call(number, pid, ctypes.byref(here), 1, ctypes.byref(here), 1, 0)
def take_descriptor(pid):
    handle = os.pidfd_open(pid)
    call(GET, handle, 0, 0)
for name in ["own", *sys.argv[1:]]:
    pid = own if name == "own" else int(name)
    attempt("attach " + name, trace, ATTACH, pid)
    attempt("seize " + name, trace, SEIZE, pid)
    attempt("read " + name, copy, READ, pid)
    attempt("write " + name, copy, WRITE, pid)
    attempt("descriptor " + name, take_descriptor, pid)
os.kill(own, signal.SIGKILL)
"""


def test_tracing_and_copying_from_a_process(eve: Attacker, victims: list[int]):
    """ptrace, process_vm_readv, process_vm_writev and pidfd_getfd are refused."""
    assert_only_her_own(eve.attempts(CONTROL, *victims), victims)


SIGNALS = """
own = os.fork()
if own == 0:
    while True:
        time.sleep(600)
def by_thread(pid, number):
    call(234, pid, pid, number)
def by_handle(pid, number):
    signal.pidfd_send_signal(os.pidfd_open(pid), number)
def queued(pid, number):
    call(129, pid, number, ctypes.create_string_buffer(
        struct.pack("iiii", number, 0, -1, os.getpid()).ljust(128, b"\\0")))
def group(pid, number):
    os.kill(-os.getpgid(pid), number) if pid != own else os.kill(pid, number)
def owner_of_descriptor(pid, number):
    # The kernel sends the signal when there is something to read.
    ends = os.pipe()
    fcntl.fcntl(ends[0], fcntl.F_SETOWN, pid)
    fcntl.fcntl(ends[0], 10, number)
    fcntl.fcntl(ends[0], fcntl.F_SETFL, os.O_ASYNC)
    os.write(ends[1], b"x")
ways = {"kill": os.kill, "thread": by_thread, "handle": by_handle, "queued": queued,
        "group": group}
for number in (signal.SIGCONT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM, signal.SIGSTOP,
               signal.SIGKILL):
    for name, way in ways.items():
        for pid in sys.argv[1:]:
            attempt("%s-%d %s" % (name, number, pid), way, int(pid), number)
        if number == signal.SIGCONT:
            attempt("%s-%d own" % (name, number), way, own, number)
        else:
            print("%s-%d own: done" % (name, number))
    for pid in sys.argv[1:]:
        owner_of_descriptor(int(pid), number)
os.kill(own, signal.SIGKILL)
"""


def test_signals_to_a_process(eve: Attacker, victims: list[int]):
    """By kill, tgkill, sigqueue, a pidfd, a group, and the owner of a descriptor."""
    assert_only_her_own(eve.attempts(SIGNALS, *victims), victims)


KILL_ALL = """
say("begun")
if sys.argv[1] == "namespace":
    call(272, 0x10000000)  # unshare: she is root there
os.kill(-1, signal.SIGKILL)
say("alive")
time.sleep(600)
"""


@pytest.mark.parametrize("where", ["here", "namespace"])
def test_a_signal_to_all_processes(eve: Attacker, anns: Working, where: str):
    """kill(-1) reaches her own tasks; Ann's goes on."""
    other = eve.begin("say('other')\ntime.sleep(600)")
    eve.told("other")
    job = eve.begin(KILL_ALL, where)
    eve.told("alive")
    end = eve.end_of(other)
    assert (end.cause, end.signal) == ("failed", 9)
    eve.cancel(job)


PRIORITY = """
own = os.getpid()
def oom(pid):
    with open("/proc/%d/oom_score_adj" % pid, "w") as file:
        file.write("1000")
ways = {
    "nice": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
    "processors": lambda pid: os.sched_setaffinity(pid, [0]),
    "scheduler": lambda pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    "limit": lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (20, 1000)),
    "input": lambda pid: call(251, 1, pid, 3 << 13),
    "oom": oom,
}
for name, way in ways.items():
    for pid in sys.argv[1:]:
        attempt(name + " " + pid, way, int(pid))
    attempt(name + " own", way, own)
"""


def test_priority_and_limits_of_a_process(eve: Attacker, victims: list[int]):
    """Nobody's process is slowed down, limited, or chosen when memory is short."""
    assert_only_her_own(eve.attempts(PRIORITY, *victims), victims)


FASTER = """
def no_less(pid=0):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
attempt("nice", os.setpriority, os.PRIO_PROCESS, 0, -20)
attempt("realtime", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
attempt("input", call, 251, 1, 0, 1 << 13)
attempt("oom", no_less)
attempt("files", resource.prlimit, 0, resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
attempt("slower", os.setpriority, os.PRIO_PROCESS, 0, 5)
"""


def test_more_priority_for_herself(eve: Attacker):
    """A task can have less than it was given, not more."""
    came_of = eve.attempts(FASTER)
    assert came_of.pop("slower") == DONE
    assert DONE not in came_of.values(), came_of


HELPER_AT_A_FIFO = """
def owner(pid):
    with open("/proc/%s/status" % pid) as file:
        return int(file.read().split("Uid:")[1].split()[1])  # the effective one
def is_helper(pid):
    with open("/proc/%s/cmdline" % pid, "rb") as file:
        return file.read().split(b"\\0")[0].endswith(b"/iriai-exec")  # not her own program text
def helpers():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if is_helper(pid) and owner(pid) == os.getuid():
                return int(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
while not (pid := helpers()):
    time.sleep(0.01)
def take(number):
    call(438, os.pidfd_open(pid), number, 0)
def reopen(number):
    os.open("/proc/%d/fd/%d" % (pid, number), os.O_RDWR)
for number in range(64):
    attempt("take %d" % number, take, number)
    attempt("reopen %d" % number, reopen, number)
attempt("trace", call, 101, 16, pid, 0, 0)
attempt("memory", os.open, "/proc/%d/mem" % pid, os.O_RDWR)
attempt("environment", os.open, "/proc/%d/environ" % pid, os.O_RDONLY)
attempt("signal", os.kill, pid, signal.Signals[sys.argv[1]])
attempt("own", os.kill, os.getpid(), signal.SIGCONT)
"""


@pytest.mark.parametrize("number", ["SIGSTOP", "SIGSEGV"])
def test_the_helper_before_a_task(eve: Attacker, number: str):
    """iriai-exec, which has a pipe to the launcher, waits with Eve's rights at her FIFO.

    She gets at nothing in it. To signal it harms her own job: stopped, it can still be ended.
    """
    eve.run("os.mkfifo('fifo')")
    waiting = eve.begin("", output="fifo")
    came_of = eve.attempts(HELPER_AT_A_FIFO, number)
    assert {came_of.pop(what) for what in ("own", "signal")} == {DONE}
    assert len(came_of) == 131
    assert DONE not in came_of.values(), came_of
    end = eve.cancel(waiting) if number == "SIGSTOP" else eve.end_of(waiting)
    assert end.cause == ("cancelled" if number == "SIGSTOP" else "failed")


def test_the_rights_of_the_helper(eve: Attacker):
    """T10c: what opens her files has her ids alone, and no capability in effect."""
    eve.run("os.mkfifo('fifo')")
    waiting = eve.begin("", output="fifo")
    [helper] = until(lambda: processes_of(eve.person.uid), "the helper")
    status = Path(f"/proc/{helper}/status").read_text().splitlines()
    told = dict(line.split(":\t", 1) for line in status)
    assert (told["Uid"], told["Gid"]) == ids_of(eve.person)
    assert {int(told[each], 16) for each in ("CapInh", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert int(told["CapPrm"], 16) & ~TO_ENTER_A_NAMESPACE == 0
    assert eve.cancel(waiting).cause == "cancelled"


def ids_of(person: TestPerson) -> tuple[str, str]:
    """User and group as /proc says them: real, effective, saved, and for files."""
    return "\t".join([str(person.uid)] * 4), "\t".join([str(person.gid)] * 4)
