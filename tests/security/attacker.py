"""Eve, an ordinary user of a machine of root's who attacks, and Ann, who works there meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from iriai.wire.requests import JobDraft, Jobs, Outcome
from tests.endtoend.installation import PYTHON, Installation
from tests.support.people import TestPerson
from tests.support.waiting import until

PARTS = ("supervisor", "daemon", "launcher")
PRELUDE = """
import ctypes, errno, fcntl, os, resource, signal, socket, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if libc.syscall(number, *words) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def attempt(what, action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        print(what + ": " + errno.errorcode.get(error.errno, "error"), flush=True)
    else:
        print(what + ": done", flush=True)
def say(name, text=""):
    with open(name + ".new", "w") as file:
        file.write(str(text))
    os.rename(name + ".new", name)
def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)
"""
"""What each of Eve's programs begins with. `attempt` prints whether the kernel let her."""
DONE = "done"
HONEST = """
import os, time
print(os.getpid(), flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
print("to its end")
"""


class Attacker:
    """Eve with a directory of her own, in which her tasks work."""

    def __init__(self, installation: Installation, person: TestPerson, directory: Path) -> None:
        self.installation = installation
        self.person = person
        self.directory = directory

    def draft(self, program: str, *arguments: object, **fields: object) -> JobDraft:
        """A job that runs `program`, in Python, as everybody else's task."""
        words = (PYTHON, "-c", PRELUDE + program, *map(str, arguments))
        return self.installation.draft(*words, **{"cwd": self.directory, **fields})

    def submit(self, draft: JobDraft) -> str:
        """Hand a job in; returns its id."""
        with self.installation.client(self.person) as client:
            return client.submit(draft).id

    def begin(self, program: str, *arguments: object, **fields: object) -> str:
        """Have `program` run as a job; returns its id."""
        return self.submit(self.draft(program, *arguments, **fields))

    def end_of(self, job: str) -> Outcome:
        """How the only task of a job ended."""
        with self.installation.client(self.person) as client:
            return client.wait([job])[0]

    def run(self, program: str, *arguments: object, **fields: object) -> str:
        """What `program` prints, run to its end as a job."""
        output = self.directory / "output"
        output.unlink(missing_ok=True)
        job = self.begin(program, *arguments, output="output", **fields)
        end = self.end_of(job)
        printed = output.read_text()
        assert end.cause == "completed", (end, printed)
        return printed

    def attempts(self, program: str, *arguments: object, **fields: object) -> dict[str, str]:
        """What came of each `attempt` of `program`: `done`, or the name of the error."""
        lines = self.run(program, *arguments, **fields).splitlines()
        return dict(line.rsplit(": ", 1) for line in lines)

    def told(self, name: str) -> str:
        """What a program of hers said under this name, once it has."""
        path = self.directory / name
        until(path.exists, name)
        return path.read_text()

    def tell(self, name: str) -> None:
        """Let a program of hers go on."""
        (self.directory / name).touch()

    def cancel(self, job: str) -> Outcome:
        """End a job as its user does; returns how it ended."""
        with self.installation.client(self.person) as client:
            client.cancel([job])
        return self.end_of(job)

    def jobs(self) -> list[str]:
        """Her jobs that have not finished."""
        with self.installation.client(self.person) as client:
            return [row.id for row in client.jobs(Jobs())]

    def stop(self) -> None:
        """End all of her jobs."""
        left = self.jobs()
        if left:
            with self.installation.client(self.person) as client:
                client.cancel(left)
                client.wait(left)


class Working(NamedTuple):
    """A task of Ann's that runs until she lets it end."""

    job: str
    pid: int


@contextmanager
def working(installation: Installation) -> Iterator[Working]:
    """Have Ann work; afterwards her task ends as she wants, and not before."""
    (installation.work / "go").unlink(missing_ok=True)
    output = installation.work / "working"
    output.unlink(missing_ok=True)
    with installation.client() as client:
        job = client.submit(installation.draft(PYTHON, "-c", HONEST, output="working")).id
        until(lambda: output.exists() and output.read_text().endswith("\n"), "Ann's task")
        yield Working(job, int(output.read_text()))
        until(lambda: client.show(job).row.state == "running", "the news of its start")
        (installation.work / "go").touch()
        assert client.wait([job])[0].cause == "completed"
    assert output.read_text().splitlines()[1:] == ["to its end"]


def work_to_the_end(installation: Installation) -> None:
    """A short job of Ann's is served."""
    output = installation.work / "served"
    output.unlink(missing_ok=True)
    with installation.client() as client:
        job = client.submit(installation.draft("echo", "served", output="served")).id
        assert client.wait([job])[0].cause == "completed"
    assert output.read_text() == "served\n"


@contextmanager
def attacking(installation: Installation, person: TestPerson, name: str) -> Iterator[Attacker]:
    """Let Eve attack; afterwards nobody was harmed, and nothing of hers is left."""
    directory = installation.directory / name
    directory.mkdir()
    os.chown(directory, person.uid, person.gid)
    before = pids_of(installation)
    eve = Attacker(installation, person, directory)
    yield eve
    eve.stop()
    until(lambda: processes_of(person.uid) == [], "the end of all of Eve's processes")
    work_to_the_end(installation)
    assert pids_of(installation) == before
    assert files_of(person.uid, installation.state) == []
    assert files_of(person.uid, Path("/etc")) == []
    words = installation.words()
    assert "Traceback" not in words, words
    assert "defect" not in words, words


def pids_of(installation: Installation) -> dict[str, int | None]:
    """Which processes are supervisor, daemon and launcher."""
    return {part: installation.pid(part) for part in PARTS}


def processes_of(uid: int) -> list[int]:
    """Live processes of a user, whatever they say of themselves."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        # By the status: what may not be looked into belongs to root in /proc.
        with suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{name}/status").read_bytes()
            if b"\nUid:\t%d\t" % uid in status and b"\nState:\tZ" not in status:
                found.append(int(name))
    return found


def files_of(uid: int, place: Path) -> list[str]:
    """What in `place` belongs to a user."""
    found = []
    for directory, names, files in os.walk(place):
        for name in (*names, *files):
            path = Path(directory, name)
            with suppress(FileNotFoundError):
                if path.lstat().st_uid == uid:
                    found.append(str(path))
    return found
