"""Attacks by names of files: where output goes, where a task works, what its script is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.model.problem import Refused
from tests.endtoend.installation import PYTHON, Installation
from tests.endtoend.trespass import becoming
from tests.security.attacker import DONE, Attacker, work_to_the_end, working
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root

KEPT = "not for eve\n"
NOT_STARTED = ("failed", 126)


@pytest.fixture
def roots(attacked: Installation) -> Path:
    """A directory of root's that all may enter, with a file that all may read."""
    place = attacked.directory / "of-root"
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    (place / "file").write_text(KEPT)
    (place / "file").chmod(0o644)
    return place


@pytest.fixture
def anns(attacked: Installation, people: People) -> Path:
    """A file of Ann's that Eve cannot read."""
    path = attacked.work / "secret"
    path.write_text(KEPT)
    path.chmod(0o600)
    os.chown(path, people.ann.uid, people.ann.gid)
    return path


def end_of_output(eve: Attacker, output: str) -> tuple[str, int | None]:
    """How a job ends whose output would go there."""
    end = eve.end_of(eve.begin("print('eve was here')", output=output))
    return end.cause, end.exit_code


def test_output_through_a_link_to_a_file_of_roots(eve: Attacker, roots: Path):
    """A symbolic link is followed as Eve: what she may not write, and may not make, stays so."""
    (eve.directory / "old").symlink_to(roots / "file")
    (eve.directory / "new").symlink_to(roots / "made")
    (eve.directory / "etc").symlink_to("/etc/iriai-made-by-eve")
    (eve.directory / "own").symlink_to(eve.directory / "written")
    for link in ("old", "new", "etc"):
        assert end_of_output(eve, link) == NOT_STARTED
    assert end_of_output(eve, "own") == ("completed", 0)
    assert (eve.directory / "written").read_text() == "eve was here\n"
    assert (roots / "file").read_text() == KEPT
    assert not (roots / "made").exists()


def test_output_through_a_link_to_a_file_of_anns(eve: Attacker, anns: Path):
    """The same for what is another user's."""
    (eve.directory / "link").symlink_to(anns)
    assert end_of_output(eve, "link") == NOT_STARTED
    assert end_of_output(eve, str(anns)) == NOT_STARTED
    assert anns.read_text() == KEPT


def test_output_through_a_hard_link(eve: Attacker, anns: Path, roots: Path):
    """Where the system lets users make them, another's file stays closed under Eve's name."""
    for path in (anns, roots / "file"):
        name = f"hard-{path.name}"
        os.link(path, eve.directory / name)
        assert end_of_output(eve, name) == NOT_STARTED
        assert path.read_text() == KEPT


def test_output_into_descriptors_of_the_helper(eve: Attacker, attacked: Installation):
    """No descriptor that iriai-exec was started with can be opened again as Eve.

    Some lead to the launcher's log, and to a pipe on which it is told that starts failed.
    """
    words = "print('eve was here')"
    draft = eve.draft(words, output="/proc/self/fd/%t", array=((0, 63, 1),))
    with attacked.client(eve.person) as client:
        [end] = client.wait([client.submit(draft).id])
    assert end.cause != "completed"
    assert "eve was here" not in attacked.words()
    assert end_of_output(eve, "/dev/stderr") == NOT_STARTED


@pytest.mark.parametrize("output", ["/proc/self/mem", "/proc/1/environ", "/dev/mem", ".", "no/x"])
def test_output_into_what_is_no_file_of_hers(eve: Attacker, output: str):
    """The job does not start, and that is all."""
    assert end_of_output(eve, output) == NOT_STARTED


def test_output_into_a_full_device(eve: Attacker):
    """Writing fails for the task alone."""
    assert end_of_output(eve, "/dev/full") == ("failed", 120)


def test_a_fifo_that_nobody_reads(eve: Attacker, attacked: Installation):
    """A start that hangs hangs as Eve: others start, and her job can be ended."""
    eve.run("os.mkfifo('fifo')")
    jobs = [eve.begin("", output="fifo") for _ in range(3)]
    for _ in range(3):
        work_to_the_end(attacked)
    assert {eve.cancel(job).cause for job in jobs} == {"cancelled"}


def test_a_directory_that_becomes_a_link(eve: Attacker, attacked: Installation, roots: Path):
    """Between submission and start: the task works there as Eve, or not at all."""
    place = eve.directory / "place"
    for target, expected in ((roots, NOT_STARTED), (attacked.state / "store", NOT_STARTED)):
        eve.run("os.mkdir('place')")
        job = eve.submit(eve.draft("", cwd=place, output="made", held=True))
        eve.run("os.rmdir('place')\nos.symlink(sys.argv[1], 'place')", target)
        with attacked.client(eve.person) as client:
            client.release([job])
        end = eve.end_of(job)
        assert (end.cause, end.exit_code) == expected
        assert not (target / "made").exists()
        place.unlink()


def test_a_directory_that_is_removed(eve: Attacker, attacked: Installation):
    """Before the start, or while the task works in it."""
    eve.run("os.mkdir('place')")
    place = eve.directory / "place"
    held = eve.submit(eve.draft("", cwd=place, held=True))
    runs = eve.begin("os.rmdir(os.getcwd())", cwd=place, output="/dev/null")
    assert eve.end_of(runs).cause == "completed"
    with attacked.client(eve.person) as client:
        client.release([held])
    end = eve.end_of(held)
    assert (end.cause, end.exit_code) == NOT_STARTED


@pytest.fixture
def root_of_ann(attacked: Installation) -> Iterator[str]:
    """What /proc calls the root directory of a process of Ann's."""
    with working(attacked) as task:
        yield f"/proc/{task.pid}/root"


def test_a_directory_in_the_process_of_another(eve: Attacker, root_of_ann: str):
    """Neither is entered by way of a process."""
    for place in (root_of_ann, "/proc/1/cwd"):
        end = eve.end_of(eve.begin("", cwd=place, output="/dev/null"))
        assert (end.cause, end.exit_code) == NOT_STARTED


SCRIPTS = {
    "nul": (b"#!/bin/sh\0\nid -u\n", ("completed", 0)),
    "itself": (b"#!/proc/self/exe\nid -u\n", NOT_STARTED),
    "no-program": (b"#!\nid -u\n", ("completed", 0)),
    "long-line": (b"#!/" + b"x" * 5000 + b"\nid -u\n", ("completed", 0)),
    "binary": (b"\x7fELF" + b"\xff" * 100, ("failed", 127)),
    "directory": (b"#!/etc\nid -u\n", NOT_STARTED),
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_odd_scripts(eve: Attacker, attacked: Installation, kind: str):
    """What the kernel does not run, the user's shell runs, as the user, or the job fails."""
    content, expected = SCRIPTS[kind]
    draft = attacked.draft(script=content, cwd=eve.directory, output="who", error="/dev/null")
    end = eve.end_of(eve.submit(draft))
    assert (end.cause, end.exit_code) == expected
    printed = f"{eve.person.uid}\n" if expected == ("completed", 0) else ""
    assert not printed or (eve.directory / "who").read_text() == printed


def test_scripts_of_16_mib(eve: Attacker, attacked: Installation):
    """The largest is served, and one more byte is refused."""
    script = b"#!/bin/sh\nexit 7\n".ljust(16 << 20, b"#")
    end = eve.end_of(eve.submit(attacked.draft(script=script, cwd=eve.directory)))
    assert (end.cause, end.exit_code) == ("failed", 7)
    with pytest.raises(Refused, match="larger than 16 MiB"):
        eve.submit(attacked.draft(script=script + b"#", cwd=eve.directory))


SWAPPER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
place, hidden = sys.argv[1:]
os.makedirs(place + "/work")
os.symlink(hidden, place + ".link")
print("x", flush=True)
while True:
    libc.syscall(316, -100, place.encode(), -100, (place + ".link").encode(), 2)
"""


@pytest.fixture
def swapped(attacked: Installation, people: People) -> Iterator[Path]:
    """A name in /tmp that a program of Eve's makes a directory and a link by turns.

    The link leads to a directory that all could enter, but for the one that it lies in.
    """
    hidden = attacked.work / "hidden"
    (hidden / "in" / "work").mkdir(parents=True, exist_ok=True)
    (hidden / "in" / "work" / "file").write_text(KEPT)
    for path in (hidden, *hidden.rglob("*")):
        os.chown(path, people.ann.uid, people.ann.gid)
        path.chmod(0o755)
    hidden.chmod(0o700)
    place = Path(f"/tmp/eve-{os.getpid()}")
    words = [*becoming(people.eve), PYTHON, "-c", SWAPPER, str(place), str(hidden / "in")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        try:
            yield place
        finally:
            process.kill()
    for path in (place, place.with_suffix(".link")):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)


def test_an_entry_of_tmp_that_is_swapped_while_it_is_made_visible(eve: Attacker, swapped: Path):
    """Root, who has it be at its place in each task's own /tmp, is led nowhere by it."""
    read = eve.draft(
        "attempt('read', open, sys.argv[1] + '/work/file')\nattempt('here', open, 'file')",
        swapped,
        cwd=swapped / "work",
        output=str(eve.directory / "%j.%t.out"),
        array=((0, 99, 1),),
    )

    def told() -> str:
        """What those said that began at all: they looked, by the path and where they were."""
        with eve.installation.client(eve.person) as client:
            client.wait([client.submit(read).id])
        return "".join(path.read_text() for path in eve.directory.glob("*.out"))

    assert DONE not in until(told, "a task that began")


MOUNT = """
import ctypes, os, sys
place, owner = sys.argv[1:]
served = os.open("/dev/fuse", os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=%s,group_id=0,allow_other" % (served, owner)
libc = ctypes.CDLL(None, use_errno=True)
result = libc.mount(b"eve", place.encode(), b"fuse", 6, options.encode())
print(result, flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.fixture
def unanswered(people: People) -> Iterator[Path]:
    """A file system in /tmp that Eve serves to all, and does not, as fusermount makes it."""
    place = Path(f"/tmp/eve-fuse-{os.getpid()}")
    place.mkdir()
    words = [sys.executable, "-c", MOUNT, str(place), str(people.eve.uid)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        try:
            yield place
        finally:
            process.stdin.close()
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()


def test_a_file_system_of_hers_that_does_not_answer(
    eve: Attacker, attacked: Installation, unanswered: Path
):
    """The launcher asks it nothing: her task hangs, others start, and hers can be ended."""
    job = eve.begin("", cwd=unanswered / "place", output="/dev/null")
    for _ in range(3):
        work_to_the_end(attacked)
    assert eve.cancel(job).cause == "cancelled"
