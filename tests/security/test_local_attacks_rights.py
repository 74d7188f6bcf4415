"""Attacks that would give a task rights, or let it out of what it was put in."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from tests.endtoend.installation import PYTHON, Installation
from tests.security.attacker import DONE, PRELUDE, Attacker, processes_of, work_to_the_end, working
from tests.support.people import People
from tests.support.waiting import is_gone, until

pytestmark = pytest.mark.root

# --- more rights --------------------------------------------------------------------------------

NAMESPACE = """
victim, secret, state = sys.argv[1:]
uid, gid = os.getuid(), os.getgid()
def map_as(path, text):
    with open("/proc/self/" + path, "w") as file:
        file.write(text)
def enter(pid):
    call(308, os.open("/proc/%s/ns/mnt" % pid, os.O_RDONLY), 0)
call(272, 0x10000000)  # unshare: a namespace of users
attempt("map root", map_as, "uid_map", "0 0 1")
attempt("map all", map_as, "uid_map", "0 0 4294967295")
attempt("map groups", map_as, "gid_map", "0 0 1")
map_as("setgroups", "deny")
map_as("uid_map", "0 %d 1" % uid)
map_as("gid_map", "0 %d 1" % gid)
attempt("own", os.setuid, 0)
call(272, 0x00020000)  # unshare: one of mounts, where she is root
def mount(source, target, kind, flags=0, data=None):
    if libc.mount(source, target, kind, flags, data) < 0:
        raise OSError(ctypes.get_errno(), "mount")
os.mkdir("mounted")
attempt("own mount", mount, b"none", b"mounted", b"tmpfs")
attempt("device", os.mknod, "mounted/memory", 0o20600, os.makedev(1, 1))
attempt("disk", os.mknod, "mounted/disk", 0o60600, os.makedev(254, 0))
attempt("file system", mount, b"/dev/vda", b"mounted", b"ext4")
attempt("writable again", mount, b"none", b"/sys", None, 0x20)
attempt("kill", os.kill, int(victim), 9)
attempt("kill init", os.kill, 1, 9)
attempt("read", open, secret)
attempt("take", os.chown, secret, 0, 0)
attempt("enter", enter, 1)
attempt("enter another", enter, victim)
attempt("state", os.listdir, state)
attempt("another user", os.setuid, 1)
attempt("groups", os.setgroups, [])
attempt("host", socket.sethostname, "eve")
attempt("clock", time.clock_settime, time.CLOCK_REALTIME, 0.0)
attempt("module", call, 175, b"", 0, b"")
attempt("restart", call, 169, 0xfee1dead, 672274793, 0, 0)
with open("mounted/program", "wb") as file:
    file.write(b"x")
os.chmod("mounted/program", 0o4755)
attempt("owner", os.chown, "mounted/program", 1, 1)
"""


def test_root_in_a_namespace_of_her_own(eve: Attacker, attacked: Installation, people: People):
    """Who is root there is Eve everywhere else."""
    secret = attacked.work / "secret"
    secret.write_text("of ann")
    secret.chmod(0o600)
    os.chown(secret, people.ann.uid, people.ann.gid)
    with working(attacked) as task:
        came_of = eve.attempts(NAMESPACE, task.pid, secret, attacked.state)
    assert {came_of.pop("own"), came_of.pop("own mount")} == {DONE}
    assert len(came_of) == 21
    assert DONE not in came_of.values(), came_of


BECOME = """
attempt("become", os.setuid, 0)
attempt("become group", os.setgid, 0)
attempt("read", open, "/etc/shadow")
attempt("own", os.setuid, os.getuid())
"""
CAPABILITIES = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
"""Of a file, version 2: the first 32, permitted and inheritable, and effective."""


@pytest.mark.parametrize("kind", ["setuid", "setgid", "capabilities"])
def test_a_program_that_gives_rights(eve: Attacker, attacked: Installation, kind: str):
    """An interpreter that somebody installed with root's rights has none in a task."""
    program = attacked.directory / f"python-{kind}"
    shutil.copy(os.path.realpath(PYTHON), program)
    program.chmod({"setuid": 0o4755, "setgid": 0o2755, "capabilities": 0o755}[kind])
    if kind == "capabilities":
        os.setxattr(program, "security.capability", CAPABILITIES)
    words = f"attempt('start', os.execv, {str(program)!r}, ['python', '-c', sys.argv[1]])"
    came_of = eve.attempts(words, PRELUDE + BECOME)
    # The kernel does not run at all what cannot have the capabilities that it begins with.
    expected = {"start": "EPERM"} if kind == "capabilities" else {"own": DONE}
    assert {what: came_of.pop(what, "") for what in expected} == expected
    assert DONE not in came_of.values(), came_of


GROUPS = """
import glob
with open("/proc/self/cgroup") as file:
    lines = [line.strip().split(":", 2) for line in file]
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
found = 0
for _, controllers, path in lines:
    base = "/sys/fs/cgroup/" + (controllers.replace("name=", "") or "unified")
    if not os.path.isdir(base):
        base = "/sys/fs/cgroup"
    here = base + path
    if not os.path.isdir(here):
        continue
    found += 1
    for place in {here, os.path.dirname(here), base, *glob.glob(os.path.dirname(here) + "/*/")}:
        for name, text in (
            ("cgroup.procs", "0"), ("tasks", "0"), ("cgroup.kill", "1"), ("cgroup.freeze", "1"),
            ("memory.max", "max"), ("memory.limit_in_bytes", "-1"), ("pids.max", "max"),
            ("cpu.max", "max"), ("cpu.shares", "1000000"), ("release_agent", "/tmp/x"),
            ("notify_on_release", "1"), ("memory.oom_control", "1"),
            ("cgroup.event_control", "0 0"), ("memory.force_empty", "1"),
            ("devices.allow", "a"), ("cgroup.subtree_control", "-pids"),
        ):
            if os.path.exists(place + "/" + name):
                attempt(place + "/" + name, write, place + "/" + name, text)
        attempt("make in " + place, os.mkdir, place + "/of-eve")
attempt("own", write, "own", str(found))
"""


def test_control_groups(eve: Attacker, attacked: Installation):
    """No group is left, entered, made, frozen, killed or given other limits."""
    with working(attacked):
        came_of = eve.attempts(GROUPS)
    assert came_of.pop("own") == DONE
    assert int((eve.directory / "own").read_text()) > 0
    assert any("procs" in what for what in came_of), came_of
    assert DONE not in came_of.values(), {k: v for k, v in came_of.items() if v == DONE}


RELEASE = """
uid, gid = os.getuid(), os.getgid()
call(272, 0x10000000 | 0x02000000 | 0x00020000)  # unshare: users, control groups, mounts
for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
    with open("/proc/self/" + name, "w") as file:
        file.write(text)
def mount(kind, data):
    os.makedirs("groups", exist_ok=True)
    if libc.mount(b"none", b"groups", kind, 0, data) < 0:
        raise OSError(ctypes.get_errno(), "mount")
def write(name, text):
    with open("groups/" + name, "w") as file:
        file.write(text)
print("begun: x")
for kind, data in ((b"cgroup", b"memory"), (b"cgroup", b"pids"), (b"cgroup", b"rdma"),
                   (b"cgroup2", None)):
    try:
        mount(kind, data)
    except OSError:
        continue
    for name, text in (("release_agent", os.getcwd() + "/agent"), ("cgroup.procs", "0"),
                       ("tasks", "0"), ("memory.limit_in_bytes", "-1"), ("pids.max", "max")):
        if os.path.exists("groups/" + name):
            attempt("%s of %s %s" % (name, kind, data), write, name, text)
    attempt("make in %s %s" % (kind, data), os.mkdir, "groups/of-eve")
"""


def test_control_groups_seen_from_a_namespace(eve: Attacker):
    """Mounted by who is root in a namespace they obey no more, and no agent is called."""
    came_of = eve.attempts(RELEASE)
    assert came_of.pop("begun") == "x"
    harmless = {what for what in came_of if what.startswith(("cgroup.procs", "tasks"))}
    assert DONE not in {came_of[what] for what in came_of.keys() - harmless}, came_of


# --- more than its share ------------------------------------------------------------------------

BOMB = """
refused = 0
pids = []
say("begun")
while refused < 200:
    try:
        pid = os.fork()
    except OSError:
        refused += 1
        time.sleep(0.005)
        continue
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    pids.append(pid)
say("count", len(pids))
time.sleep(600)
"""


def test_a_fork_bomb_within_its_limit(eve: Attacker, attacked: Installation):
    """Others work while it goes on, and its end takes all of it."""
    job = eve.begin(BOMB, process_limit=60)
    eve.told("begun")
    work_to_the_end(attacked)
    assert int(eve.told("count")) < 60
    assert eve.cancel(job).cause == "cancelled"
    until(lambda: processes_of(eve.person.uid) == [], "the end of them all")


THREADS = """
import threading
say("begun")
started = 0
try:
    while started < 1000:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        started += 1
except RuntimeError:
    pass
say("count", started)
time.sleep(600)
"""


def test_threads_within_the_limit(eve: Attacker, attacked: Installation):
    """Threads count as processes do."""
    job = eve.begin(THREADS, process_limit=60)
    assert int(eve.told("count")) < 60
    work_to_the_end(attacked)
    assert eve.cancel(job).cause == "cancelled"


MEMORY = """
say("begun")
held = []
while True:
    held.append(bytearray(b"x") * (4 << 20))
"""


def test_memory_up_to_its_limit(eve: Attacker, attacked: Installation):
    """The task is ended that wants more, and no other."""
    with working(attacked):
        end = eve.end_of(eve.begin(MEMORY, memory_bytes=100 << 20))
    assert end.cause == "memory-limit"


# --- to outlive its end -------------------------------------------------------------------------

LEAVE = """
def leave():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            return
        os._exit(0)
    os.wait()
    wait_for("go")
    os._exit(0)
"""
STAY = "say('pid', os.getpid())\ntime.sleep(600)\n"
AGAIN = """
import os, time
with open("pid.new", "w") as file:
    file.write(str(os.getpid()))
os.rename("pid.new", "pid")
time.sleep(600)
"""
WAYS = {
    "double fork": "leave()\n" + STAY,
    "no environment": f"leave()\nos.execve({PYTHON!r}, ['x', '-c', {AGAIN!r}], {{}})\n",
    "another's mark": (
        f"leave()\nos.execve({PYTHON!r}, ['x', '-c', {AGAIN!r}], {{'IRIAI_MARK': sys.argv[1]}})\n"
    ),
    "signals ignored": (
        "leave()\nfor number in set(signal.valid_signals()) - {9, 19}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n" + STAY
    ),
    "stopped": "leave()\nsay('pid', os.getpid())\nos.kill(os.getpid(), signal.SIGSTOP)\n" + STAY,
    "subreaper": (
        "libc.prctl(36, 1, 0, 0, 0)\nif os.fork():\n    wait_for('go')\n    os._exit(0)\n"
        "os.setsid()\nlibc.prctl(36, 1, 0, 0, 0)\n" + STAY
    ),
    "name": ("leave()\nlibc.prctl(15, b') Z 1 1 1 (\\n', 0, 0, 0)\n" + STAY),
    "namespace": (
        "leave()\ncall(272, 0x30000000)\nif os.fork() == 0:\n    time.sleep(600)\n" + STAY
    ),
    "traced": (
        "leave()\nif os.fork() == 0:\n    time.sleep(0.1)\n    parent = os.getppid()\n"
        "    call(101, 0x4206, parent, 0, 0)\n    os.kill(parent, signal.SIGSTOP)\n"
        "    say('pid', parent)\n    time.sleep(600)\ntime.sleep(600)\n"
    ),
}
"""Ways in which a process may want to stay; each writes its number into `pid`."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("by", ["end", "cancel"])
def test_a_process_that_wants_to_outlive_its_task(
    eve: Attacker, attacked: Installation, way: str, by: str
):
    """When the task is over, by itself or by order, all of it is."""
    with working(attacked) as task:
        job = eve.begin(LEAVE + WAYS[way], f"x/{task.job}.0#1")
        pid = int(eve.told("pid"))
        if by == "end":
            eve.tell("go")
            eve.end_of(job)
        else:
            eve.cancel(job)
        until(lambda: is_gone(pid), "its end")


ORPHANS = """
for _ in range(300):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


def test_orphans_that_somebody_has_to_bury(eve: Attacker, attacked: Installation):
    """Whoever gets them buries them."""
    assert eve.end_of(eve.begin(ORPHANS)).cause == "completed"
    until(lambda: not zombies_of(attacked.pid("launcher")), "their burial")


def zombies_of(parent: int | None) -> list[str]:
    """Dead children that a process has not waited for."""
    words = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [pid for pid in words if is_gone(int(pid))]
