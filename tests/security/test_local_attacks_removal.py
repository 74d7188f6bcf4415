"""Attacks on what root does with a task's private directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.endtoend.installation import Installation
from tests.security.attacker import DONE, Attacker, work_to_the_end
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root

TMP = """
tmp = os.environ["TMPDIR"]
say("tmp", tmp)
wait_for("go")
"""
"""A task whose private directory others of Eve's get at until it is told to end."""


def end_with(eve: Attacker, job: str) -> Path:
    """Let the task of `TMP` end; returns where its private directory was."""
    eve.tell("go")
    assert eve.end_of(job).cause == "completed"
    return Path(eve.told("tmp"))


@pytest.fixture
def precious(attacked: Installation, people: People) -> Path:
    """A directory of Ann's with a file in each of its directories, which root could remove."""
    place = attacked.directory / "precious"
    place.mkdir(exist_ok=True)
    for number in range(20):
        (place / f"d{number}").mkdir(exist_ok=True)
        (place / f"d{number}" / "file").write_text("kept")
    for path in (place, *place.rglob("*")):
        os.chown(path, people.ann.uid, people.ann.gid)
    return place


def is_whole(precious: Path) -> bool:
    """Whether nothing of it was removed."""
    return len([path for path in precious.glob("d*/file") if path.read_text() == "kept"]) == 20


SWAP = """
tree, precious = sys.argv[1:]
os.mkdir(tree + "/a")
held = os.open(tree + "/a", os.O_RDONLY)
for number in range(50):
    os.makedirs(tree + "/a/%d/b/c" % number)
    os.symlink(precious, tree + "/a/link%d" % number)
RENAME, EXCHANGE = 316, 2
swaps = 0
while True:
    gone = 0
    for number in range(50):
        try:
            call(RENAME, held, b"%d" % number, held, b"link%d" % number, EXCHANGE)
            swaps += 1
        except OSError:
            gone += 1
    if swaps == 50:
        say("ready")
    if gone == 50:
        break
say("swaps", swaps)
"""


def test_directories_swapped_with_links_while_they_are_removed(eve: Attacker, precious: Path):
    """Root removes no file of another by a name that was a directory's a moment before."""
    task = eve.begin(TMP)
    swapper = eve.begin(SWAP, eve.told("tmp"), precious)
    eve.told("ready")
    place = end_with(eve, task)
    assert eve.end_of(swapper).cause == "completed"
    assert int(eve.told("swaps")) >= 50
    until(lambda: not place.exists(), "the removal")
    assert is_whole(precious)


REFILL = """
tree = sys.argv[1]
os.mkdir(tree + "/a")
held = os.open(tree + "/a", os.O_RDONLY)
say("ready")
number = 0
while not os.path.exists("enough"):
    number += 1
    try:
        os.mkdir("d%d" % number, dir_fd=held)
        os.mkdir("d%d/in" % number, dir_fd=held)
    except OSError:
        pass
say("made", number)
"""


def test_a_directory_that_fills_up_while_it_is_removed(eve: Attacker, attacked: Installation):
    """Others' directories are removed all the same, and the launcher serves them meanwhile."""
    task = eve.begin(TMP)
    refill = eve.begin(REFILL, eve.told("tmp"))
    eve.told("ready")
    place = end_with(eve, task)
    with attacked.client() as client:
        words = ("sh", "-c", "mkdir $TMPDIR/a; echo > $TMPDIR/a/file; echo $TMPDIR")
        job = client.submit(attacked.draft(*words, output="tmpdir")).id
        assert client.wait([job])[0].cause == "completed"
    anns = Path((attacked.work / "tmpdir").read_text().strip())
    until(lambda: not anns.exists(), "the removal of Ann's directory")
    assert not place.exists()  # it is where nobody else gets in
    eve.tell("enough")
    assert eve.end_of(refill).cause == "completed"
    (attacked.work / "tmpdir").unlink()


MANY = """
tmp = os.environ["TMPDIR"]
say("tmp", tmp)
os.mkdir(tmp + "/many")
os.chdir(tmp + "/many")
for number in range(10_000):
    os.close(os.open("f%d" % number, os.O_CREAT))
for name in (b"\\xff\\xfe", b"a\\nb", b"-rf", b"*", b"\\x1b]0;x\\x07", b"x" * 255, b" "):
    os.mkdir(name)
    os.symlink("/", name + b"/link")
os.mknod("socket", 0o140600)
os.mkfifo("fifo")
os.chmod(".", 0)
"""


def test_ten_thousand_files_of_odd_names(eve: Attacker, attacked: Installation):
    """They are removed beside what others do."""
    assert eve.end_of(eve.begin(MANY)).cause == "completed"
    work_to_the_end(attacked)
    until(lambda: not Path(eve.told("tmp")).exists(), "the removal")


KEEP = """
tmp = os.environ["TMPDIR"]
libc.ioctl.argtypes = ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p
def flag(value):
    fd = os.open(tmp, os.O_RDONLY)
    if libc.ioctl(fd, 0x40086602, ctypes.byref(ctypes.c_long(value))) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def replace():
    os.rename(tmp, tmp + ".old")
    os.symlink("/", tmp)
place = os.path.dirname(tmp)
attempt("immutable", flag, 0x10)
attempt("append only", flag, 0x20)
attempt("no backup", flag, 0x40)
attempt("replace", replace)
attempt("remove", os.rmdir, tmp)
attempt("list", os.listdir, place)
attempt("make beside", os.mkdir, place + "/9999")
attempt("enter removed", os.chdir, place + "/removed")
attempt("owner", os.chown, tmp, 0, 0)
attempt("own", os.mkdir, tmp + "/own")
"""


def test_a_private_directory_cannot_be_made_to_stay_or_to_be_another(eve: Attacker):
    """Neither by flags nor by putting something else in its place."""
    came_of = eve.attempts(KEEP)
    assert came_of.pop("own") == DONE
    came_of.pop("no backup")  # hers to set, where the file system has it
    assert DONE not in came_of.values(), came_of


MOUNT = """
tree, precious = sys.argv[1:]
os.makedirs(tree + "/a/on")
uid, gid = os.getuid(), os.getgid()
call(272, 0x10020000)  # unshare: a namespace of users and one of mounts
for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % uid), ("gid_map", "0 %d 1" % gid)):
    with open("/proc/self/" + name, "w") as file:
        file.write(text)
def mount(source, target, kind, flags):
    if libc.mount(source.encode(), target.encode(), kind, flags, None) < 0:
        raise OSError(ctypes.get_errno(), "mount")
mount(precious, tree + "/a/on", None, 0x5000)
mount("none", tree, b"tmpfs", 0)
say("ready", len(os.listdir(tree)))
wait_for("enough")
"""


def test_something_is_mounted_there_in_a_namespace_of_hers(eve: Attacker, precious: Path):
    """What she mounted for herself neither stays in the way nor is emptied."""
    task = eve.begin(TMP)
    mounter = eve.begin(MOUNT, eve.told("tmp"), precious)
    assert eve.told("ready") == "0"
    place = end_with(eve, task)
    until(lambda: not place.exists(), "the removal")
    assert is_whole(precious)
    eve.tell("enough")
    assert eve.end_of(mounter).cause == "completed"


STAY = """
held = os.open(sys.argv[1], os.O_RDONLY)
say("ready", os.fstat(held).st_ino)
wait_for("enough")
say("found", os.listdir(held))
"""


@pytest.mark.parametrize("is_touched", [False, True])
def test_a_directory_that_she_is_still_in(eve: Attacker, attacked: Installation, is_touched: bool):
    """It never becomes another's private directory, as long as she has it open."""
    task = eve.begin(TMP + ("os.mkdir(tmp + '/x')" if is_touched else ""))
    holder = eve.begin(STAY, eve.told("tmp"))
    hers = eve.told("ready")
    end_with(eve, task)
    for _ in range(5):
        with attacked.client() as client:
            words = ("sh", "-c", "stat -c %i $TMPDIR; ls -A $TMPDIR; touch $TMPDIR/secret")
            job = client.submit(attacked.draft(*words, output="tmpdir")).id
            assert client.wait([job])[0].cause == "completed"
    inodes = (attacked.work / "tmpdir").read_text().split()
    (attacked.work / "tmpdir").unlink()
    assert len(inodes) == 5  # and no names of files
    assert hers not in inodes
    eve.tell("enough")
    assert eve.end_of(holder).cause == "completed"
    assert eve.told("found") in ("[]", "['x']")  # what she made is removed in its time
