"""T4, T5, T9i: what cannot be started costs whoever handed it in, and nobody else's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from iriai.model.problem import Problem
from iriai.wire.requests import JobDraft
from tests.endtoend.installation import PATH, Installation
from tests.support.people import People

pytestmark = pytest.mark.root

MIB = 1 << 20


@pytest.fixture(scope="module")
def prepared(people: People) -> Iterator[Installation]:
    """Root's daemon on a machine with a prolog and an epilog."""
    installation = Installation(people.ann)
    hook = installation.programs / "hook"
    hook.write_text(f"#!/bin/sh\nenv >> {installation.programs}/told\necho >> /dev/stderr\n")
    hook.chmod(0o755)
    installation.configure(f'[machine]\ncpus = 2\nprolog = "{hook}"\nepilog = "{hook}"\n')
    try:
        yield installation.start()
    finally:
        installation.stop()


@pytest.fixture
def unharmed(prepared: Installation, people: People) -> Iterator[Installation]:
    """The same; afterwards the same launcher runs a job of an honest user, and is not drained."""
    before = prepared.pid("launcher"), prepared.pid("daemon")
    yield prepared
    with prepared.client(people.bob) as client:
        job = client.submit(prepared.draft("true", cwd="/", output="/dev/null")).id
        [outcome] = client.wait([job])
    assert outcome.cause == "completed"
    assert (prepared.pid("launcher"), prepared.pid("daemon")) == before
    assert "defect" not in prepared.words()


def is_refused(iriai: Installation, asked: JobDraft) -> str:
    """Why the job was not taken, or did not start."""
    with iriai.client() as client:
        try:
            job = client.submit(asked).id
        except Problem as problem:
            return str(problem)
        [outcome] = client.wait([job])
        assert (outcome.cause, outcome.exit_code) == ("failed", 126)
        return outcome.message


def test_a_directory_with_a_nul_costs_its_own_job(unharmed: Installation):
    """T4a: with a prolog, a working directory with a NUL ended the launcher again and again."""
    assert is_refused(unharmed, unharmed.draft("true", cwd="/tmp/a\0b"))


def test_a_directory_of_200_kb_costs_its_own_job(unharmed: Installation):
    """T4b: with a prolog, a working directory of 200 kB drained the machine for all."""
    assert is_refused(unharmed, unharmed.draft("true", cwd="/" + "d" * 200_000))


def test_hooks_are_told_no_text_of_a_user(unharmed: Installation):
    """T1b, T4: what runs as root has no variable, and no name that a user gave."""
    with unharmed.client() as client:
        job = client.submit(
            unharmed.draft("true", name="secret-name", env={"PATH": PATH, "SECRET_WORD": "secret"})
        ).id
        client.wait([job])
    told = (unharmed.programs / "told").read_text()
    assert f"IRIAI_JOB_ID={job}" in told
    assert "secret" not in told.lower()
    assert str(unharmed.work) not in told


def test_environments_that_fit_no_frame_cost_their_own_jobs(unharmed: Installation):
    """T5: two jobs with environments of 130 MiB that start together stopped every start."""
    with unharmed.client() as client:
        taken = []
        for letter in "ab":
            with suppress(Problem):
                draft = unharmed.draft("true", env=large_environment(letter), held=True)
                taken.append(client.submit(draft).id)
        if taken:
            client.release(taken)
        assert [each.exit_code for each in client.wait(taken)] == [126] * len(taken)


def test_a_variable_that_execve_does_not_take_costs_its_own_job(unharmed: Installation):
    """T5: of 128 KiB the kernel takes none."""
    assert is_refused(unharmed, unharmed.draft("true", env={"PATH": PATH, "LARGE": "x" * 140_000}))


def test_large_environments_leave_no_memory_in_the_launcher(unharmed: Installation):
    """T9i: what the launcher had decoded it kept, sixty-four of any size."""
    pid = unharmed.pid("launcher")
    before = resident_bytes(pid)
    assert is_refused(unharmed, unharmed.draft("true", env=large_environment("c")))
    with unharmed.client() as client:
        jobs = [
            client.submit(unharmed.draft("true", env=many_variables(each))).id for each in range(40)
        ]
        assert {each.cause for each in client.wait(jobs)} == {"completed"}
    assert resident_bytes(pid) - before < 64 * MIB


def large_environment(letter: str) -> dict[str, str]:
    """Of 130 MiB."""
    return {f"LARGE_{each}": letter * MIB for each in range(130)}


def many_variables(number: int) -> dict[str, str]:
    """Nearly as many as may be, different for each number."""
    return {"PATH": PATH} | {f"V{number}_{each}": "x" for each in range(15_000)}


def resident_bytes(pid: int | None) -> int:
    """What a process has in memory."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096
