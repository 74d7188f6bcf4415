"""Each attempt's private TMPDIR: whose it is, and that nothing of it is left."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iriai.launcher.contract.machine_config import MachineSettings, write_machine_file
from iriai.launcher.directories import scratch as scratch_module
from iriai.launcher.directories.removal import Removal, remove_tree
from iriai.launcher.directories.scratch import NoDirectory, Scratch
from iriai.model.state import EndCause
from tests.launcher.harness import Lab, Machine, attempt, is_running, launch, until


def directory_of(lab: Lab, *more: str) -> Path:
    """The private directory of a task that does `more` in it, and has ended."""
    script = "; ".join(["echo $TMPDIR", 'cd "$TMPDIR"', *more])
    end = lab.run("sh", "-c", script, output=f"tmpdir-{time.monotonic_ns()}")
    assert end.exit_code == 0, end.message
    newest = max(lab.folder.glob("tmpdir-*"))
    return Path(newest.read_text().splitlines()[0])


def is_empty_or_gone(path: Path) -> bool:
    return not path.exists() or not any(path.iterdir())


def test_a_task_has_a_private_directory_of_its_own(lab: Lab):
    lab.end_of(
        lab.python("import os; s = os.stat(os.environ['TMPDIR']); print(s.st_uid, s.st_mode)")
    )
    uid, mode = map(int, lab.read().split())
    assert uid == lab.machine.uid
    assert stat.S_IMODE(mode) == 0o700
    first = lab.launch(lab.spec("sh", "-c", "echo $TMPDIR; sleep 600", output="first"))
    second = lab.launch(lab.spec("sh", "-c", "echo $TMPDIR; sleep 600", output="second"))
    assert lab.wait_for("first") != lab.wait_for("second")
    for each in (first, second):
        os.kill(lab.link.pid_of(each), 9)
        lab.link.exit_of(each)


def test_the_submitters_tmpdir_does_not_come_along(lab: Lab):
    lab.end_of(lab.spec("sh", "-c", "echo $TMPDIR"), environment={"TMPDIR": "/tmp/mine"})
    assert lab.read() != "/tmp/mine\n"


def test_what_a_task_leaves_is_removed_whatever_it_is(lab: Lab):
    marker = lab.folder / "keep"
    marker.mkdir()
    (marker / "file").write_text("of the user")
    path = directory_of(
        lab,
        "mkdir -p a/b/c d && touch a/b/c/file a/x .hidden",
        f"ln -s {marker} link && ln -s {marker}/file a/link && ln -s / root",
        "mkfifo pipe && touch locked && chmod 0 locked && chmod 0 d a",
    )
    until(lambda: is_empty_or_gone(path), "the removal")
    assert (marker / "file").read_text() == "of the user"


def test_the_next_task_finds_nothing_of_the_one_before(lab: Lab):
    for _ in range(5):
        directory_of(lab, 'test -z "$(ls -A)"', "touch file && mkdir -p a/b")
        directory_of(lab, 'test -z "$(ls -A)"', "chmod 777 .")
        directory_of(lab, 'test -z "$(ls -A)"', "test $(stat -c %a .) = 700")


def test_an_untouched_directory_serves_the_next_task(lab: Lab):
    assert directory_of(lab) == directory_of(lab)


def test_a_deep_tree_is_removed_while_tasks_go_on(lab: Lab):
    deep = "import os\nfor i in range(3000):\n os.mkdir('d'); os.chdir('d')"
    end = lab.end_of(lab.python(f"import os; os.chdir(os.environ['TMPDIR'])\n{deep}"))
    assert end.exit_code == 0, end.message
    assert lab.run("true").exit_code == 0


def test_a_new_launcher_removes_what_a_killed_one_left(machine: Machine):
    machine.start()
    link = machine.attach()
    script = "mkdir $TMPDIR/a && touch $TMPDIR/a/file && echo $TMPDIR && sleep 600"
    launch(link, machine.spec("sh", "-c", script), attempt(1))
    pid = link.pid_of(attempt(1))
    until(lambda: (machine.work / "out").exists() and machine.output(), "the task's output")
    path = Path(machine.output().strip())
    assert path.is_dir()
    machine.kill()
    machine.start()
    assert not is_running(pid)
    until(lambda: not path.exists(), "the removal")
    assert machine.process is not None
    machine.process.terminate()
    machine.wait()
    assert not path.parent.exists()


def test_nothing_is_left_when_a_launcher_has_ended(machine: Machine):
    machine.start()
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", "echo $TMPDIR; touch $TMPDIR/file"), attempt(1))
    link.exit_of(attempt(1))
    launch(link, machine.spec("true"), attempt(2))
    link.exit_of(attempt(2))
    assert machine.process is not None
    machine.process.terminate()
    machine.wait()
    path = Path(machine.output().strip())
    assert not path.parent.exists()


def test_the_machine_says_where(plain_machine: Machine):
    machine = plain_machine
    place = machine.directory / "scratch"
    place.mkdir(mode=0o755)
    machine.start()
    write_machine_file(str(machine.state), MachineSettings(tmp=str(place)))
    link = machine.attach()
    launch(link, machine.spec("sh", "-c", "echo $TMPDIR"), attempt(1))
    link.exit_of(attempt(1))
    assert machine.output().startswith(f"{place}/iriai-")


def test_a_place_that_is_not_there_refuses_the_attempt_for_now(plain_machine: Machine):
    machine = plain_machine
    machine.start()
    write_machine_file(str(machine.state), MachineSettings(tmp="/no/such/place"))
    link = machine.attach()
    launch(link, machine.spec("true"), attempt(1))
    end = link.exit_of(attempt(1))
    assert end.cause is EndCause.REFUSED
    assert "/no/such/place" in end.message
    write_machine_file(str(machine.state), MachineSettings())
    link = machine.attach()
    launch(link, machine.spec("true"), attempt(2))
    assert link.exit_of(attempt(2)).cause is EndCause.COMPLETED


@pytest.mark.root
def test_settings_that_somebody_else_wrote_are_not_taken(plain_machine: Machine):
    machine = plain_machine
    machine.start()
    file = machine.state / "machine.json"
    write_machine_file(str(machine.state), MachineSettings(tmp="/no/such/place"))
    os.chown(file, machine.uid, -1)
    link = machine.link()
    with pytest.raises(AssertionError, match="closed"):
        link.attach()
    assert "machine.json must be a file of user id 0" in machine.log.read_text()


def scratch_in(path: Path) -> Scratch:
    private = path / "private"
    private.mkdir(exist_ok=True)
    scratch = Scratch(str(private), os.open(private, os.O_RDONLY), "test")
    scratch.use(str(path / "tmp"))
    return scratch


def test_a_place_that_somebody_else_took_is_left_alone(tmp_path: Path):
    (tmp_path / "tmp").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "tmp" / "iriai-test").symlink_to(elsewhere)
    scratch = scratch_in(tmp_path)
    directory = scratch.acquire(os.geteuid(), os.getegid())
    assert directory.path.startswith(f"{tmp_path}/private/tmp/")
    assert list(elsewhere.iterdir()) == []


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path):
    with pytest.raises(NoDirectory, match=f"{tmp_path}/tmp: No such file"):
        scratch_in(tmp_path).acquire(os.geteuid(), os.getegid())


def test_only_so_many_directories_are_kept(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(scratch_module, "IDLE_MAX", 2)
    (tmp_path / "tmp").mkdir()
    scratch = scratch_in(tmp_path)
    taken = [scratch.acquire(os.geteuid(), os.getegid()) for _ in range(5)]
    for each in taken:
        scratch.give_back(each, 0.0)
    kept = [each for each in taken if Path(each.path).exists()]
    assert len(kept) == 2
    scratch.close(10)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_wide_tree_is_removed_in_pieces(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("iriai.launcher.directories.removal.MOVED_MAX", 3)
    for number in range(20):
        (tmp_path / "tree" / str(number) / "a" / "b").mkdir(parents=True)
        (tmp_path / "tree" / str(number) / "a" / "file").touch()
    remove_tree(os.open(tmp_path, os.O_RDONLY), "tree")
    assert list(tmp_path.iterdir()) == []


def test_a_removal_that_fails_keeps_nothing_else_from_being_removed(tmp_path: Path):
    removal = Removal()
    fd = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "one" / "a").mkdir(parents=True)
    removal.add(fd, "not there")
    removal.add(fd, "one")
    assert removal.wait(10)
    assert list(tmp_path.iterdir()) == []


MOUNTED = """
import os, sys
sys.path[:0] = {path!r}
from iriai.launcher.directories.removal import remove_tree
base = {base!r}
def mount(source, target, kind, flags):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.mount(source.encode(), target.encode(), kind, flags, None)
    assert result == 0, os.strerror(ctypes.get_errno())
mount("none", "/", None, 0x44000)  # private
os.makedirs(base + "/tree/a/mounted"); os.makedirs(base + "/tree/a/other")
open(base + "/tree/a/file", "w").close()
mount(base + "/precious", base + "/tree/a/mounted", None, 0x1000)
mount(base + "/precious", base + "/tree/a/mounted", None, 0x1000)
mount(base + "/precious/file", base + "/tree/a/file", None, 0x1000)
mount("tmpfs", base + "/tree/a/other", b"tmpfs", 0)
open(base + "/tree/a/other/large", "w").close()
remove_tree(os.open(base, os.O_RDONLY), "tree")
assert os.listdir(base) == ["precious"], os.listdir(base)
"""


@pytest.mark.root
def test_what_is_mounted_in_a_tree_is_detached_and_not_touched(tmp_path: Path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    program = MOUNTED.format(path=sys.path, base=str(tmp_path))
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (precious / "file").read_text() == "kept"
