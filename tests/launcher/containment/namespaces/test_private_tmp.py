"""The private /tmp and /dev/shm of a task of root's launcher, and what stays visible in them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.launcher.containment.namespaces import pool
from iriai.launcher.containment.namespaces.visible import (
    EVERYTHING,
    Visible,
    visible_below,
    visible_for,
)
from iriai.launcher.contract.machine_config import MachineSettings, write_machine_file
from iriai.model.ids import Account
from iriai.model.job import JobSpec
from iriai.system.passwd_cache import Login
from tests.launcher.harness import Lab, Machine, attempt, launch, until

IS_ROOT = os.geteuid() == 0


def is_private(lab: Lab) -> bool:
    return IS_ROOT and lab.machine.variant.is_privileged


@pytest.fixture
def beside(lab: Lab) -> Iterator[Path]:
    """A directory in /tmp that is the task's user's, and no task's of the others."""
    path = Path(tempfile.mkdtemp(prefix="iriai-beside-", dir="/tmp"))
    if IS_ROOT:
        os.chown(path, lab.machine.uid, lab.machine.gid)
    yield path
    shutil.rmtree(path)


def listed(lab: Lab, place: str) -> list[str]:
    end = lab.run("ls", "-A", place)
    assert end.exit_code == 0, end.message
    return lab.read().split()


def test_a_task_finds_nothing_in_tmp_but_where_it_works(lab: Lab, beside: Path):
    names = listed(lab, "/tmp")
    assert lab.machine.directory.name in names
    assert (beside.name in names) == (not is_private(lab))


def test_a_working_directory_below_tmp_is_at_its_path(lab: Lab):
    assert lab.run("sh", "-c", "pwd; echo made > new; cat $PWD/new").exit_code == 0
    assert lab.read() == f"{lab.folder}\nmade\n"
    assert (lab.folder / "new").read_text() == "made\n"


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_what_a_task_leaves_nobody_finds(lab: Lab, place: str):
    if not is_private(lab):
        place = "$TMPDIR"
    for _ in range(3):
        script = f"test ! -e {place}/left && mkdir -p {place}/left/a && echo x > {place}/left/a/b"
        end = lab.run("sh", "-c", script)
        assert end.exit_code == 0, end.message
    assert not Path(place, "left").exists()


def test_both_are_as_programs_expect_them(lab: Lab):
    assert lab.run("stat", "-c", "%a %U", "/tmp", "/dev/shm").exit_code == 0
    assert lab.read() == "1777 root\n" * 2


def test_output_goes_to_the_machines_tmp(lab: Lab, beside: Path):
    end = lab.end_of(lab.spec("echo", "hello", output=f"{beside}/out"))
    assert end.exit_code == 0, end.message
    assert (beside / "out").read_text() == "hello\n"
    direct = Path(f"{beside}.out")
    try:
        assert lab.end_of(lab.spec("echo", "hello", output=str(direct))).exit_code == 0
        assert direct.read_text() == "hello\n"
        assert direct.stat().st_uid == lab.machine.uid
    finally:
        direct.unlink()


def test_a_program_below_tmp_is_found(lab: Lab, beside: Path):
    program = beside / "program"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert lab.run(str(program)).exit_code == 0
    assert lab.read() == "found\n"
    assert lab.end_of(lab.spec(), script=b"#!/bin/sh\necho script\n").exit_code == 0
    assert lab.read() == "found\nscript\n"


def test_who_works_in_tmp_itself_has_the_machines(lab: Lab, beside: Path):
    name = f"{beside.name}.listed"
    try:
        spec = lab.machine.spec("ls", "-A", working_directory="/tmp", output=name)
        assert lab.end_of(spec).exit_code == 0
        assert beside.name in Path("/tmp", name).read_text().split()
    finally:
        Path("/tmp", name).unlink(missing_ok=True)


def test_a_working_directory_behind_a_link_is_entered(lab: Lab, beside: Path):
    link = Path(tempfile.mkdtemp(prefix="iriai-link-", dir="/var/tmp"))
    link.chmod(0o755)
    try:
        (link / "here").symlink_to(beside)
        spec = lab.machine.spec("sh", "-c", "pwd -P > found", working_directory=f"{link}/here")
        end = lab.end_of(spec)
        assert end.exit_code == 0, end.message
        assert (beside / "found").read_text() == f"{beside}\n"
    finally:
        shutil.rmtree(link)


def test_a_name_that_no_file_can_have_is_the_tasks_end_alone(lab: Lab):
    for name in ("/tmp/a\0b/c", "/tmp/" + "x" * 300, "/dev/shm/../../tmp/../none"):
        end = lab.end_of(lab.machine.spec("true", working_directory=name))
        assert end.exit_code == 126, name
    assert lab.run("true").exit_code == 0


def test_the_machine_can_have_all_use_its_own(plain_machine: Machine):
    machine = plain_machine
    machine.start()
    write_machine_file(str(machine.state), MachineSettings(private_tmp=False))
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        link = machine.attach()
        launch(link, machine.spec("ls", "/tmp"), attempt(1))
        link.exit_of(attempt(1))
        assert Path(file.name).name in machine.output().split()
    (row,) = [each for each in machine.attach().welcome.enforcement if each.limit == "private-tmp"]
    assert row.by == "not private"


@pytest.mark.root
def test_an_untouched_one_serves_the_next_task_of_the_same_user(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    for number in range(1, 6):
        launch(link, machine.spec("readlink", "/proc/self/ns/mnt"), attempt(number))
        link.exit_of(attempt(number))
    assert len(set(machine.output().split())) == 1


@pytest.mark.root
def test_nothing_is_left_of_private_directories(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    script = "mkdir -p /tmp/a/b && touch /tmp/a/b/c && echo ${TMPDIR%/*}/private"
    launch(link, machine.spec("sh", "-c", script), attempt(1))
    link.exit_of(attempt(1))
    place = Path(machine.output().strip())
    until(lambda: not any(place.glob("*/a")), "the removal of what the task left")
    assert machine.work.is_dir()  # it was mounted in there
    assert machine.process is not None
    machine.process.terminate()
    machine.wait()
    assert not place.parent.exists()


@pytest.mark.root
def test_a_killed_launchers_are_removed_by_the_next(plain_machine: Machine):
    machine = plain_machine.start()
    link = machine.attach()
    script = "touch /tmp/a && echo ${TMPDIR%/*}/private && sleep 600"
    launch(link, machine.spec("sh", "-c", script), attempt(1))
    until(lambda: (machine.work / "out").exists() and machine.output(), "the task's output")
    place = Path(machine.output().strip())
    assert any(place.glob("*/a"))
    machine.kill()
    machine.start()
    until(lambda: not any(place.glob("*/a")), "the removal")
    assert machine.work.is_dir()


@pytest.mark.root
def test_only_so_many_are_kept(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(pool, "IDLE_MAX", 3)
    (tmp_path / "tmp").mkdir()
    scratch = pool.Scratch(str(tmp_path), os.open(tmp_path, os.O_RDONLY), "test")
    scratch.use(str(tmp_path / "tmp"))
    namespaces = pool.Namespaces(scratch, str(tmp_path))
    namespaces.use(str(tmp_path / "tmp"), wanted=True)
    taken = [namespaces.acquire(uid, Visible()) for uid in (1001, 1001, 1001, 1002, 1003)]
    for each in taken:
        assert each is not None
        namespaces.give_back(each, 0.0)
    assert namespaces.acquire(1003, Visible()) is taken[4]
    assert namespaces.acquire(1002, Visible()) is taken[3]
    assert namespaces.acquire(1001, Visible()) is taken[2]
    assert namespaces.acquire(1001, Visible()) not in taken
    namespaces.close()
    scratch.close(10)


def spec(**fields: str | tuple[str, ...]) -> JobSpec:
    given = {"working_directory": "/home/ann", "command": ("true",), "output": "out"} | fields
    return JobSpec(account=Account("staff", "ann"), user="ann", name="test", **given)


ANN = Login("ann", 1001, 1001, (1001,), "/home/ann", "/bin/sh")


def test_what_is_visible_is_the_entries_by_which_a_task_gets_to_its_paths():
    assert visible_for(spec(), ANN) == Visible()
    elsewhere = spec(working_directory="/tmp/project/run", output="/dev/shm/ann/deep/out")
    assert visible_for(elsewhere, ANN) == Visible(frozenset({"project"}), frozenset({"ann"}))
    assert visible_for(spec(command=("/tmp/tools/run",)), ANN).tmp == frozenset({"tools"})
    stages = spec(command=(), pipes=(("/tmp/one/run",), ("sort",), ("/tmp/two/run",)))
    assert visible_for(stages, ANN).tmp == frozenset({"one", "two"})
    assert visible_for(spec(output="/tmp/out"), ANN) == Visible()
    assert visible_for(spec(), ANN._replace(home="/tmp/ann")).tmp == frozenset({"ann"})
    assert visible_for(spec(), ANN._replace(home="/tmp")) == Visible()


def test_who_works_in_one_of_them_has_all_of_that_one():
    assert visible_for(spec(working_directory="/tmp"), ANN) == Visible(None, frozenset())
    assert visible_for(spec(working_directory="/dev/shm/./"), ANN) == Visible(frozenset(), None)
    assert visible_below(["/tmp/", "/dev/shm"]) == EVERYTHING


def test_names_that_only_look_alike_are_elsewhere():
    paths = ["/tmpfile/a", "/tmp/../etc", "/dev/shmem", "relative", "", "/tmp/a/../../var"]
    assert visible_below(paths) == Visible()
