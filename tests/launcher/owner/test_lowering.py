"""Background tasks run in the idle class, in each way in which tasks are kept together."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from iriai.launcher.contract.messages import MeasureLowering, StartStep, Terminate
from iriai.launcher.owner.lowering_probe import PROCESS_NAME, kept_of
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.model.suspension import SuspendReason
from iriai.system.procfs import all_processes
from tests.launcher.harness import Lab, Machine, is_running, launch, until

STUBBORN = "trap '' TERM; for each in $*; do sleep 600 & done; : > began; exec sleep 600"
"""With one process more than it has arguments. Little work: it has to be done in the idle class."""
FORKS = "trap '' TERM; : > began; while :; do sleep 0.01; done"
SAVES = "trap ': > saved' TERM; : > began; while :; do sleep 0.05; done"
BUSY = ": > began; until [ -e go ]; do sleep 0.05; done; while :; do :; done"
"""Once told: beside others that are busy in the idle class the next would begin very late."""
KEPT_MIN = 0.8
"""Of the processor beside lowered tasks: 0.99 by groups, 0.92 by sessions, 0.5 and less else."""


@pytest.fixture
def lab(freezing_lab: Lab) -> Iterator[Lab]:
    yield freezing_lab
    freezing_lab.link.watch_owner(suspends=False)
    freezing_lab.machine.wait_until_read(freezing_lab.link)


def lower(lab: Lab, *exempt: AttemptId) -> None:
    lab.link.watch_owner(*exempt, suspends=False, lowers=True)


def is_behind(pid: int) -> bool:
    """Whether a process is in the idle class, by its group or by its session."""
    groups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    by_group = any("-idle/" in each for each in groups if ":cpu" in each)
    session = Path(f"/proc/{pid}/autogroup")
    return by_group or (session.exists() and session.read_text().endswith("nice 19\n"))


def disk_class(pid: int) -> str:
    words = ["ionice", "-p", str(pid)]
    return (
        subprocess.run(words, check=True, capture_output=True, text=True)
        .stdout.split(":")[0]
        .strip()
    )


def begin(lab: Lab, text: str = STUBBORN, *words: str, task: AttemptId | None = None):
    """Start a task; returns its number and its process once it is at its work."""
    (lab.folder / "began").unlink(missing_ok=True)
    task = lab.new_attempt() if task is None else task
    launch(lab.link, lab.spec("sh", "-c", text, "sh", *words, output=""), task)
    pid = lab.link.pid_of(task)
    until((lab.folder / "began").exists, "its begin")
    return task, pid


def falls_behind(*pids: int) -> bool:
    """Wait until all are in the idle class: ordinary users set ten sessions a second."""
    until(lambda: all(map(is_behind, pids)), "their being behind")
    return True


def comes_out(*pids: int) -> bool:
    until(lambda: not any(map(is_behind, pids)), "their leaving")
    return True


def end(lab: Lab, *tasks: AttemptId, grace_s: float = 0.0) -> None:
    lab.link.send(Terminate(tasks, EndCause.CANCELLED, grace_s))
    if not grace_s:
        for each in tasks:
            lab.link.exit_of(each)


@contextmanager
def busy_owner() -> Iterator[list[subprocess.Popen[bytes]]]:
    """One busy process on each processor, in sessions of their own."""
    words = ["sh", "-c", "while :; do :; done"]
    owners = [subprocess.Popen(words, start_new_session=True) for _ in os.sched_getaffinity(0)]
    for each, cpu in zip(owners, os.sched_getaffinity(0), strict=True):
        os.sched_setaffinity(each.pid, [cpu])
    try:
        yield owners
    finally:
        for each in owners:
            each.kill()
            each.wait()


def cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


# --- who is behind -------------------------------------------------------------------------------


def test_background_tasks_are_behind_and_those_of_others_are_not(lab: Lab):
    before, own = begin(lab)
    lower(lab, before)
    task, pid = begin(lab)
    assert falls_behind(pid)
    assert disk_class(pid) == "idle"
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    assert not is_behind(own)
    end(lab, before, task)


def test_without_the_order_nothing_is_behind(lab: Lab):
    lower(lab)
    lab.link.watch_owner(suspends=False)
    task, pid = begin(lab)
    assert not is_behind(pid)
    assert disk_class(pid) != "idle"
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() != "1000\n"
    end(lab, task)


def test_an_exempt_task_starts_outside(lab: Lab):
    exempt = lab.new_attempt()
    lower(lab, exempt)
    _, pid = begin(lab, task=exempt)
    assert not is_behind(pid)
    end(lab, exempt)


def test_who_becomes_exempt_leaves_and_an_older_order_changes_nothing(lab: Lab):
    lower(lab)
    task, pid = begin(lab, STUBBORN, *"123")
    number = lab.link.watch_owner(suspends=False, lowers=True)
    lab.link.watch_owner(task, suspends=False, lowers=True, number=number)
    lab.machine.wait_until_read(lab.link)
    assert falls_behind(pid)
    lower(lab, task)
    lab.machine.wait_until_read(lab.link)
    assert comes_out(*tree(pid))
    assert disk_class(pid) != "idle"
    end(lab, task)


def tree(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def sessions(pid: int) -> dict[str, int]:
    stats = [Path(f"/proc/{each}/stat").read_text() for each in tree(pid)]
    return {each.rpartition(")")[2].split()[3]: 1 for each in stats}


# --- what ends -----------------------------------------------------------------------------------


def test_what_is_to_end_leaves_with_all_its_processes(lab: Lab):
    lower(lab)
    task, pid = begin(lab, STUBBORN, *"12345678")
    assert falls_behind(*tree(pid))
    other, own = begin(lab)
    end(lab, task, grace_s=20.0)
    assert comes_out(*tree(pid))
    assert disk_class(pid) != "idle"
    assert falls_behind(own)
    end(lab, task, other)


def test_what_forks_all_the_time_leaves_too(lab: Lab):
    lower(lab)
    task, _ = begin(lab, FORKS)
    end(lab, task, grace_s=0.3)
    assert lab.link.exit_of(task).cause is EndCause.CANCELLED


def test_what_was_suspended_saves_itself_outside(lab: Lab):
    lower(lab)
    task, pid = begin(lab, SAVES)
    assert falls_behind(pid)
    lab.link.freeze(task, SuspendReason.OWNER)
    end(lab, task, grace_s=20.0)
    until((lab.folder / "saved").exists, "its work at the end")
    assert comes_out(pid)
    end(lab, task)


def test_a_group_that_was_left_is_idle_for_the_next_task(lab: Lab):
    for _ in range(3):
        lower(lab)
        task, pid = begin(lab)
        assert falls_behind(pid)
        end(lab, task, grace_s=20.0)
        assert comes_out(pid)
        end(lab, task)


def test_the_owner_keeps_the_processor(lab: Lab):
    lower(lab)
    count = 2 * len(os.sched_getaffinity(0))
    tasks = dict(begin(lab, BUSY) for _ in range(count))
    (lab.folder / "go").touch()
    assert falls_behind(*tasks.values())
    with busy_owner() as owners:
        time.sleep(0.3)
        pids = [each.pid for each in owners]
        before = [sum(map(cpu_ns, each)) for each in (pids, tasks.values())]
        time.sleep(1.5)
        after = [sum(map(cpu_ns, each)) for each in (pids, tasks.values())]
    own, theirs = (late - early for early, late in zip(before, after, strict=True))
    assert own / (own + theirs) > KEPT_MIN
    end(lab, *tasks)


# --- what tasks do about it ----------------------------------------------------------------------


def test_a_further_session_is_behind_as_well(lab: Lab):
    lower(lab)
    task, pid = begin(lab, "trap '' TERM; setsid sleep 600 & : > began; exec sleep 600")
    until(lambda: len(sessions(pid)) == 2, "its child's session")
    assert falls_behind(*tree(pid))
    end(lab, task, grace_s=20.0)
    assert comes_out(*tree(pid))
    end(lab, task)


HOSTILE = """
echo 0 > /proc/$$/autogroup
echo 0 > /proc/$$/oom_score_adj
group=$(sed -n 's/.*:cpu:\\(.*idle\\).*/\\1/p' /proc/$$/cgroup)
echo 0 > /sys/fs/cgroup/cpu/$group/cpu.idle
echo $$ > /sys/fs/cgroup/cpu/cgroup.procs
"""
IS_MIGHTY = bool(
    int(Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0], 16) & 1 << 24
)
"""Whether root may keep others from changing that: in a container it may lack CAP_SYS_RESOURCE."""


def test_a_task_cannot_get_out(lab: Lab):
    lower(lab)
    task, pid = begin(lab, HOSTILE + STUBBORN)
    assert falls_behind(pid)
    if lab.machine.variant.is_privileged and IS_MIGHTY:
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    end(lab, task)


def test_a_step_that_begins_after_its_task_has_left_begins_outside(lab: Lab):
    lower(lab)
    task, pid = begin(lab)
    lower(lab, task)
    assert comes_out(pid)
    words = ("sh", "-c", "cat /proc/self/cgroup /proc/self/autogroup > new; mv new seen")
    step = task.of_step(1)
    lab.link.send(StartStep(step, 0, words, Interaction.STREAM))
    seen = lab.wait_for("seen")
    lab.link.exit_of(step)
    assert "-idle/" not in seen
    assert "nice 19" not in seen
    end(lab, task)


# --- launchers that end --------------------------------------------------------------------------


def groups_of(machine: Machine) -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/iriai-{machine.mark}*"))


def test_nothing_is_left_after_a_launcher_that_died(new_freezing_machine: Machine):
    lab = Lab(new_freezing_machine.start())
    lower(lab)
    task, pid = begin(lab, STUBBORN, *"123")
    pids = tree(pid)
    new_freezing_machine.kill()
    again = Lab(new_freezing_machine.start())
    until(lambda: not any(map(is_running, pids)), "their end")
    assert again.link.welcome is not None
    assert [each.cause for each in again.link.welcome.ended] == [EndCause.LOST]
    lower(again)
    task, pid = begin(again)
    assert falls_behind(pid)
    end(again, task)
    with suppress(ProcessLookupError):
        os.kill(new_freezing_machine.process.pid, signal.SIGTERM)  # type: ignore[union-attr]
    new_freezing_machine.wait()
    assert groups_of(new_freezing_machine) == []


def test_how_it_is_done_is_told(lab: Lab):
    lower(lab)
    lab.link.welcome = None
    (row,) = [each for each in lab.link.attach().enforcement if each.limit == "lowering"]
    if lab.machine.variant.isolation == "v1":
        assert row.by == "cgroup v1 cpu.idle"
    else:
        assert row.by.startswith(("cgroup v", "nice value of sessions"))


# --- what the owner keeps ------------------------------------------------------------------------


def row_of(lab: Lab, word: str) -> str:
    """The row of lowering, once it has this word."""

    def rows() -> list[str]:
        told = [each for each in lab.link.enforced if each.limit == "lowering"]
        return [text for each in told if word in (text := f"{each.by}: {each.note}")]

    lab.link.until(rows, "the row")
    return rows()[-1]


def test_what_a_busy_owner_keeps_is_measured_when_asked(lab: Lab):
    lower(lab)
    lab.machine.wait_until_read(lab.link)
    lab.link.send(MeasureLowering())
    kept = re.search(r"a busy owner keeps ([\d.]+) %", row_of(lab, "owner keeps"))
    assert kept is not None
    assert float(kept[1]) > 100 * KEPT_MIN
    until(lambda: not probes_of(lab.machine), "the end of its processes")


def probes_of(machine: Machine) -> list[int]:
    """The processes that measure for this launcher."""
    found = {each.pid: each.parent for each in all_processes() if each.is_live}
    assert machine.process is not None
    own = machine.process.pid
    below = [pid for pid, parent in found.items() if own in (parent, found.get(parent))]
    return [pid for pid in below if _is_probe(pid)]


def _is_probe(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text() == f"{PROCESS_NAME}\n"
    return False


def test_many_questions_are_one_measurement(lab: Lab):
    lower(lab)
    lab.machine.wait_until_read(lab.link)
    for _ in range(50):
        lab.link.send(MeasureLowering())
    lab.machine.wait_until_read(lab.link)
    assert len(probes_of(lab.machine)) <= PROCESSES
    until(lambda: not probes_of(lab.machine), "the end of it")


PROCESSES = 1 + 3 * len(os.sched_getaffinity(0))
"""Of one measurement."""


def test_nothing_is_measured_where_nothing_is_lowered(new_freezing_machine: Machine):
    lab = Lab(new_freezing_machine.start())
    lab.link.send(MeasureLowering())
    assert row_of(lab, "no order").startswith("not lowered")


@pytest.mark.parametrize("answer", [b"", b"-1", b"1001", b"\xff", b"9.5", b"x" * 8])
def test_a_wrong_answer_is_no_measurement(answer: bytes):
    assert kept_of(answer) is None
