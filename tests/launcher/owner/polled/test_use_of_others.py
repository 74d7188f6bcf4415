"""Processor time and pressure of others than our tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.launcher.owner.polled.pressure import GROUPS_MAX, PressureProbe
from iriai.launcher.owner.polled.processor_use import GroupUse, ProcessorProbe, TreeUse
from iriai.system.procfs import TICKS_PER_S
from tests.launcher.owner.polled.trees import LAUNCHER, Tree, Watched

# --- processors ----------------------------------------------------------------------------------


class Used:
    """A machine whose processors are used by our tasks and by others."""

    def __init__(self, tree: Tree, kind: str) -> None:
        self.tree, self.kind = tree, kind
        self.own_s = self.others_s = 0.0
        own = {
            "v1": GroupUse(f"{tree}/group", 1),
            "v2": GroupUse(f"{tree}/group", 2),
            "tree": TreeUse(LAUNCHER, str(tree)),
        }[kind]
        self.write()
        self.watched = Watched(ProcessorProbe(0.5, own, str(tree)))
        self.watched.signs()

    def write(self) -> None:
        ticks = [int(each * TICKS_PER_S) for each in (self.own_s, self.others_s)]
        self.tree.put("stat", f"cpu {sum(ticks)} 0 0 99999 88 0 0 77 0 0\ncpu0 1 2\n")
        self.tree.put("group/cpuacct.usage", f"{int(self.own_s * 1e9)}\n")
        self.tree.put("group/cpu.stat", f"usage_usec {int(self.own_s * 1e6)}\nuser_usec 1\n")
        self.tree.process(LAUNCHER, 1, "iriai-launcher", ticks=1, waited=ticks[0] // 2)
        self.tree.process(600, LAUNCHER, ticks=ticks[0] - ticks[0] // 2)

    def work(self, own: float, others: float, seconds: int = 1) -> int:
        """So many processors are used for so long; how many signs there are."""
        signs = 0
        for _ in range(seconds):
            self.own_s, self.others_s = self.own_s + own, self.others_s + others
            self.write()
            signs += self.watched.signs()
        return signs

    @property
    def cpus(self) -> float:
        probe = self.watched.sensor._probe
        assert isinstance(probe, ProcessorProbe)
        return probe.cpus


@pytest.fixture(params=["v1", "v2", "tree"])
def used(tmp_path: Path, request) -> Used:
    return Used(Tree(tmp_path), request.param)


def test_eight_busy_tasks_are_nobody_else(used: Used):
    assert used.work(8.0, 0.0, 60) == 0
    assert used.cpus == pytest.approx(0.0, abs=0.05)


def test_somebody_else_is_noticed_beside_them_and_their_end(used: Used):
    used.work(8.0, 0.1, 30)
    assert not used.watched.state.holds
    assert used.work(8.0, 1.5, 12) >= 1
    assert "others use 1.3 cpus, the bound is 0.5" in used.watched.state.note
    used.work(8.0, 0.62, 12)  # above four fifths of the bound
    assert used.watched.state.holds
    used.work(8.0, 0.3, 12)
    assert not used.watched.state.holds


def test_a_moment_of_work_is_nobody(used: Used):
    used.work(0.0, 0.0, 20)
    assert used.work(0.0, 4.0, 3) + used.work(0.0, 0.0, 10) == 0


def test_on_an_idle_machine_ten_seconds_are_taken_together(used: Used):
    used.watched.pace.is_busy = False
    used.work(0.0, 0.0, 20)
    assert used.work(0.0, 2.0, 30) >= 1


def test_one_look_that_missed_a_process_is_no_sign(used: Used):
    """A task ends between two files: its fifty seconds are missing once, and then there again."""
    used.work(4.0, 0.0, 20)
    assert used.work(-50.0, 54.0) == 0
    assert used.work(58.0, -54.0) == 0
    assert used.work(4.0, 0.0, 20) == 0


def test_clocks_that_jump_and_counters_that_fall_measure_nothing(used: Used):
    used.work(2.0, 0.0, 5)
    used.watched.now_s += 3600.0
    assert used.work(2.0, 0.0, 5) == 0
    used.own_s = used.others_s = 0.0  # as after another boot
    assert used.work(2.0, 0.0, 5) == 0
    assert used.watched.state.works


@pytest.mark.parametrize("text", ["", "cpu", "cpu 1 2 3", "cpu a b c d e f g h", "x" * 10_000])
def test_a_kernel_that_says_nothing_is_no_sensor(tmp_path: Path, text: str):
    used = Used(Tree(tmp_path), "tree")
    used.tree.put("stat", text)
    used.watched.signs()
    assert not used.watched.state.works
    assert "no processor time" in used.watched.state.note


@pytest.mark.parametrize(("file", "version"), [("cpuacct.usage", 1), ("cpu.stat", 2)])
def test_a_group_that_is_gone_or_says_nothing_is_named(tmp_path: Path, file: str, version: int):
    used = Used(Tree(tmp_path), f"v{version}")
    used.tree.put(f"group/{file}", "usage_usec much\n")
    used.watched.signs()
    assert "no processor time" in used.watched.state.note
    used.tree.remove("group")
    used.watched.signs()
    assert f"group/{file}: No such file" in used.watched.state.note


@given(st.binary(max_size=80))
def test_no_content_of_a_process_is_an_error(tmp_path_factory, content: bytes):
    tree = Tree(tmp_path_factory.mktemp("proc"))
    tree.process(LAUNCHER, 1)
    tree.process(600, LAUNCHER)
    tree.put("600/stat", content)
    tree.put("600/task/600/children", content)
    use = TreeUse(LAUNCHER, str(tree))
    assert sum(1 for _ in use.read()) < 1000


# --- pressure ------------------------------------------------------------------------------------

MOUNTS = "41 31 0:38 / {root}/cg rw - cgroup2 cgroup2 rw\n"
NO_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00"
SESSION = "cg/user.slice/user-1000.slice/session-3.scope"


@pytest.fixture
def systemd(tmp_path: Path) -> Tree:
    """A machine whose launcher is a service, and that somebody uses."""
    tree = Tree(tmp_path)
    tree.put("self/mountinfo", MOUNTS.format(root=tree))
    tree.put(f"{LAUNCHER}/cgroup", "0::/system.slice/iriai.service\n")
    for group in ("cg/user.slice", SESSION, "cg/system.slice/iriai.service"):
        stalls(tree, group, 0.0)
    return tree


def stalls(tree: Tree, group: str, percent: float, kind: str = "io") -> None:
    for each in ("io", "memory"):
        tree.put(f"{group}/{each}.pressure", NO_PRESSURE)
    tree.put(f"{group}/{kind}.pressure", NO_PRESSURE.replace("0.00", f"{percent:.2f}", 1))


def pressure(tree: Tree) -> Watched:
    return Watched(PressureProbe(20.0, LAUNCHER, str(tree)))


@pytest.mark.parametrize("kind", ["io", "memory"])
def test_what_people_wait_for_is_a_sign_until_it_is_far_less(systemd: Tree, kind: str):
    watched = pressure(systemd)
    told = []
    for percent in (20.0, 20.5, 16.0, 15.5, 17.0):
        stalls(systemd, "cg/user.slice", percent, kind)
        told.append(watched.holds)
    assert told == [False, True, True, False, False]
    stalls(systemd, "cg/user.slice", 42.0, kind)
    watched.signs()
    assert watched.state.note == f"42 % of the time ({kind}), the bound is 20"


def test_what_our_tasks_wait_for_is_none(systemd: Tree):
    stalls(systemd, "cg/system.slice/iriai.service", 99.0)
    assert not pressure(systemd).holds


def test_a_launcher_of_a_user_leaves_its_own_service_out(systemd: Tree):
    own = "user.slice/user-1000.slice/user@1000.service/app.slice/iriai.service"
    systemd.put(f"{LAUNCHER}/cgroup", f"0::/{own}\n")
    for group in ("cg/user.slice", "cg/user.slice/user-1000.slice", f"cg/{own}"):
        stalls(systemd, group, 90.0)  # it counts in all that are above it
    assert not pressure(systemd).holds
    stalls(systemd, SESSION, 30.0)
    assert pressure(systemd).holds


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("self/mountinfo", "41 31 0:38 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"),
        ("self/mountinfo", "nothing\n"),
        (f"{LAUNCHER}/cgroup", "garbage\n"),
    ],
)
def test_without_groups_of_version_2_it_says_what_it_needs(systemd: Tree, file: str, text: str):
    systemd.put(file, text)
    watched = pressure(systemd)
    watched.signs()
    assert not watched.state.works
    assert "version 2" in watched.state.note


@pytest.mark.parametrize(
    "text", ["", "some avg10=nan ", "some avg10=99999.99 ", "full avg10=99.00 x"]
)
def test_what_is_no_pressure_does_not_count(systemd: Tree, text: str):
    systemd.put("cg/user.slice/io.pressure", text)
    assert not pressure(systemd).holds


def test_groups_that_vanish_and_too_many_of_them(systemd: Tree):
    systemd.put(f"{LAUNCHER}/cgroup", "0::/user.slice/iriai.service\n")
    for number in range(GROUPS_MAX + 50):
        stalls(systemd, f"cg/user.slice/a{number:04}.slice", 0.0)
    stalls(systemd, "cg/user.slice/z.slice", 90.0)
    probe = PressureProbe(20.0, LAUNCHER, str(systemd))
    look = probe.look(0.0)
    next(look)
    systemd.remove("cg/user.slice/a0003.slice")
    assert sum(1 for _ in look) < GROUPS_MAX
    assert not probe.holds
    systemd.remove("cg/user.slice")
    watched = Watched(probe)
    watched.signs()
    assert not watched.state.works
