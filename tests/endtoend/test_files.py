"""Whose files there are, what stands in them, and who may read them."""

import os
import pwd
import stat
import subprocess
from pathlib import Path

import pytest

from iriai.model.problem import NotAllowed
from tests.support.waiting import until

SECRET = "do-not-tell-anybody"


def uid_of(iriai):
    return iriai.person.uid if iriai.person else os.geteuid()


def test_output_goes_to_files_of_the_user_named_by_pattern(iriai):
    iriai.start()
    with iriai.client() as client:
        job = client.submit(
            iriai.draft(
                *("sh", "-c", "echo out; echo err >&2"),
                array=((3, 5, 2),),
                output="%j_%t_%a.out",
                error="%j_%t.err",
            )
        ).id
        client.wait([job])
        logs = client.logs(job)
    assert sorted(path.name for path in iriai.work.iterdir()) == [
        *(f"{job}_3.err", f"{job}_3_1.out", f"{job}_5.err", f"{job}_5_1.out"),
    ]
    for path in iriai.work.iterdir():
        assert path.stat().st_uid == uid_of(iriai)
        assert path.read_text() == ("out\n" if path.suffix == ".out" else "err\n")
    assert [log.output for log in logs] == [str(iriai.work / f"{job}_{n}_1.out") for n in (3, 5)]


def test_output_is_appended_to(iriai):
    iriai.start()
    with iriai.client() as client:
        for _ in range(2):
            draft = iriai.draft("sh", "-c", "cat /proc/self/fdinfo/1", output="all")
            client.wait([client.submit(draft).id])
    lines = (iriai.work / "all").read_text().splitlines()
    flags = [int(line.split()[1], 8) for line in lines if line.startswith("flags")]
    assert len(flags) == 2
    assert all(flag & os.O_APPEND for flag in flags)


def test_a_task_is_its_user_in_its_directory_with_its_environment(iriai):
    iriai.start()
    env = {"PATH": "/usr/bin:/bin", "COLOUR": "green", "END_TO_END_OF_IRIAI": str(iriai.directory)}
    told = 'id -un; pwd; echo "$COLOUR $IRIAI_JOB_ID $IRIAI_TASK_ID $IRIAI_ATTEMPT"; cat'
    with iriai.client() as client:
        draft = iriai.draft("sh", "-c", told, env=env, output="told", stdin=b"from stdin\n")
        job = client.submit(draft).id
        client.wait([job])
    assert (iriai.work / "told").read_text().splitlines() == [
        pwd.getpwuid(uid_of(iriai)).pw_name,
        str(iriai.work),
        f"green {job} 0 1",
        "from stdin",
    ]


def test_a_script_is_run_from_its_text(iriai):
    iriai.start()
    with iriai.client() as client:
        text = b'#!/bin/sh\necho "$1 is here"\nexit 4\n'
        job = client.submit(iriai.draft("ann", script=text, output="told")).id
        [outcome] = client.wait([job])
    assert outcome.exit_code == 4
    assert (iriai.work / "told").read_text() == "ann is here\n"


@pytest.mark.root
def test_what_was_handed_in_is_unreadable_to_others(iriai, people):
    iriai.start()
    env = {"PATH": "/usr/bin:/bin", "TOKEN": SECRET, "END_TO_END_OF_IRIAI": str(iriai.directory)}
    script = f"#!/bin/sh\n# {SECRET}\nsleep 1000\n".encode()
    with iriai.client() as client:
        draft = iriai.draft("x", script=script, stdin=SECRET.encode(), env=env, output=os.devnull)
        job = client.submit(draft).id
        until(lambda: client.show(job).row.state == "running", "the start")
        seen = subprocess.run(
            ["sh", "-c", 'find "$1" -type f -exec cat {} +; cat /proc/*/environ', "x", iriai.state],
            user=people.eve.uid,
            group=people.eve.gid,
            extra_groups=[],
            capture_output=True,
            check=False,
        ).stdout
        assert SECRET.encode() not in seen
        client.cancel([job])
        client.wait([job])
    for path in filter(Path.is_file, iriai.state.rglob("*")):
        if SECRET.encode() in path.read_bytes():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.root
def test_jobs_of_another_are_not_touched(iriai, people):
    iriai.start()
    with iriai.client() as client:
        job = client.submit(iriai.draft("sleep", "1000", output=os.devnull)).id
        with iriai.client(people.eve) as other:
            for act in (other.cancel, other.hold, other.release):
                with pytest.raises(NotAllowed):
                    act([job])
            with pytest.raises(NotAllowed):
                other.logs(job)
            assert other.jobs() == []
        assert client.show(job).row.state in ("claimed", "running")
        client.cancel([job])
        client.wait([job])
