"""Named programs of the owner, and those of tasks, which do not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.launcher.owner.polled.own_processes import DEPTH_MAX, is_foreign
from iriai.launcher.owner.polled.programs import WHOLE_EACH, ProgramProbe
from tests.launcher.owner.polled.trees import LAUNCHER, Tree, Watched


@pytest.fixture
def proc(tmp_path: Path) -> Tree:
    """A machine with a launcher, one task and a shell of the owner's."""
    tree = Tree(tmp_path)
    tree.process(1, 0, "systemd")
    tree.process(LAUNCHER, 400, "iriai-launcher")
    tree.process(400, 1, "iriai-up")
    tree.process(600, LAUNCHER, "iriai-exec")
    tree.process(700, 1, "bash")
    tree.put("self/mounts", "")
    return tree


def watch(proc: Tree, *names: str) -> Watched:
    return Watched(ProgramProbe(names, LAUNCHER, str(proc)))


def test_a_program_is_noticed_within_a_second_of_its_start_until_it_ends(proc: Tree):
    watched = watch(proc, "zoom", "steam")
    assert (watched.holds, watched.state.note) == (False, "waits for zoom, steam")
    proc.process(800, 700, "zoom")
    assert watched.signs() == 1
    assert watched.state.note == "zoom runs"
    proc.end(800)
    assert not watched.holds


def test_what_a_task_runs_does_not_count(proc: Tree):
    watched = watch(proc, "zoom")
    proc.process(801, 600, "zoom")
    proc.process(802, 801, "zoom")
    assert not watched.holds
    proc.process(803, 700, "zoom")
    assert watched.holds


@pytest.mark.parametrize("name", ["zoom.real", "Zoom", "xzoom", "zoo", "(zoom)", "zo om"])
def test_names_are_exact(proc: Tree, name: str):
    proc.process(800, 700, name)
    assert not watch(proc, "zoom").holds
    assert watch(proc, name).holds


def test_one_that_executes_a_program_later_is_noticed(proc: Tree):
    watched = watch(proc, "zoom")
    proc.process(800, 700, "bash")
    assert not watched.holds
    proc.put("800/comm", "zoom\n")
    assert watched.holds
    proc.put("800/comm", "bash\n")
    assert not watched.holds
    watched.signs(5.0)
    proc.put("800/comm", "zoom\n")
    watched.signs(float(WHOLE_EACH))
    assert watched.state.holds


def test_long_names_are_compared_whole(proc: Tree):
    """The kernel keeps fifteen letters of a name."""
    proc.process(800, 700, "gnome-calculator-old")
    assert not watch(proc, "gnome-calculator").holds
    proc.put("800/cmdline", b"/usr/bin/gnome-calculator\0-x\0")
    assert watch(proc, "gnome-calculator-old", "gnome-calculator").holds
    proc.process(801, 700, "gnome-calculator-old")
    proc.executes(801, "/opt/gnome-calculator-old")
    proc.end(800)
    assert watch(proc, "gnome-calculator-old").holds


def test_others_are_read_twice_and_then_seldom(proc: Tree):
    for pid in range(1000, 1100):
        proc.process(pid, 700, "bash")
    watched = watch(proc, "zoom")
    probe = watched.sensor._probe
    assert [sum(1 for _ in probe.look(0.0)) for _ in range(4)] == [105, 105, 0, 0]


def test_processes_that_vanish_while_they_are_read_are_left_out(proc: Tree):
    proc.process(800, 700, "zoom")
    probe = ProgramProbe(("zoom",), LAUNCHER, str(proc))
    look = probe.look(0.0)
    next(look)
    proc.end(800)
    proc.end(700)
    list(look)
    assert not probe.holds


def test_whose_parent_is_gone_is_not_known(proc: Tree):
    proc.process(800, 790, "zoom")
    assert not watch(proc, "zoom").holds


def test_a_machine_whose_processes_cannot_be_listed_says_so(tmp_path: Path):
    watched = watch(Tree(tmp_path / "none"), "zoom")
    watched.signs()
    assert not watched.state.works


@given(stat=st.binary(max_size=60), comm=st.binary(max_size=40))
def test_no_content_is_an_error(tmp_path_factory, stat: bytes, comm: bytes):
    tree = Tree(tmp_path_factory.mktemp("proc"))
    tree.put("9/stat", stat)
    tree.put("9/comm", comm)
    watch(tree, "zoom").signs()


def test_kernel_threads_and_init_are_nobody_of_ours(proc: Tree):
    proc.process(2, 0, "kthreadd")
    assert is_foreign(2, LAUNCHER, str(proc))
    assert is_foreign(1, LAUNCHER, str(proc))
    assert not is_foreign(LAUNCHER, LAUNCHER, str(proc))
    assert not is_foreign(600, LAUNCHER, str(proc))


def test_a_launcher_that_is_init_has_all_processes_of_its_container_below_it(proc: Tree):
    assert not is_foreign(700, 1, str(proc))


def test_a_circle_of_parents_ends(proc: Tree):
    proc.process(900, 901)
    proc.process(901, 900)
    assert not is_foreign(900, LAUNCHER, str(proc))


def test_a_tree_of_processes_without_end_is_looked_at_so_far_and_no_further(proc: Tree):
    parent = 700
    for pid in range(10_000, 10_000 + DEPTH_MAX + 5):
        proc.process(pid, parent)
        parent = pid
    assert is_foreign(10_000 + DEPTH_MAX - 3, LAUNCHER, str(proc))
    assert not is_foreign(parent, LAUNCHER, str(proc))
