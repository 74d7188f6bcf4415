"""`submit` and `run --reservation`: what is sent, and what is refused at once."""

from __future__ import annotations

import pytest

from iriai.model.problem import ExitCode
from iriai.wire.requests import JobDetail, JobDraft, JobRow, Submitted
from tests.client.double import double


def sent(state, shell, *words: str) -> JobDraft:
    """The draft that a command line submits."""
    with double(state, lambda _: Submitted("ume-1", 1)) as server:
        said = shell("submit", *words, "--", "true")
    assert said.code == 0, said.err
    draft: JobDraft = server.received[0].draft
    return draft


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ("", False, None)),
        (("--reservation", "ume-r7"), ("ume-r7", False, None)),
        (("--reservation", "ume-r7", "--or-queue"), ("ume-r7", True, None)),
        (("--evictable",), ("", False, True)),
        (("--no-evict",), ("", False, False)),
        (("--reservation=ume-r7", "--or-queue", "--no-evict"), ("ume-r7", True, False)),
    ],
)
def test_what_is_asked_for_is_sent(state, shell, words, expected):
    draft = sent(state, shell, *words)
    assert (draft.reservation, draft.or_queue, draft.evictable) == expected


@pytest.mark.parametrize("command", ["submit", "run"])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--or-queue",), "--or-queue without --reservation"),
        (("--reservation", "lecture"), "--reservation: 'lecture' is no id of a reservation"),
        (("--reservation", "ume-7"), "--reservation: 'ume-7' is the id of a job"),
        (("--reservation", "ume-7.1"), "--reservation: 'ume-7.1' is the id of a job"),
    ],
)
def test_what_is_wrong_is_refused_before_a_daemon_is_asked(state, shell, command, words, why):
    said = shell(command, *words, "--", "true")
    assert said.code == ExitCode.USAGE
    assert why in said.err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#SBATCH --reservation=ume-r7", ("ume-r7", False, None)),
        ("#PBS -W x=rsvid:ume-r7", ("ume-r7", False, None)),
        ("#PBS -l advres=ume-r7", ("ume-r7", False, None)),
        ("#IRIAI --reservation ume-r7 --or-queue", ("ume-r7", True, None)),
        ("#IRIAI --evictable", ("", False, True)),
        ("#IRIAI --no-evict", ("", False, False)),
    ],
)
def test_scripts_say_the_same(state, shell, tmp_path, line, expected):
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\ntrue\n")
    with double(state, lambda _: Submitted("ume-1", 1)) as server:
        said = shell("submit", str(script))
    assert said.code == 0, said.err
    draft = server.received[0].draft
    assert (draft.reservation, draft.or_queue, draft.evictable) == expected


def test_the_command_line_wins_over_the_script(state, shell, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --reservation=ume-r7\ntrue\n")
    with double(state, lambda _: Submitted("ume-1", 1)) as server:
        shell("submit", "--reservation", "ume-r8", str(script))
    assert server.received[0].draft.reservation == "ume-r8"


def test_show_says_in_which_reservation_a_job_runs_and_what_it_leaves_for(state, shell):
    row = JobRow("ume-42", "make", "lab", "ann", "queued", 1, 1, 0, 0, 0, 1.9e9, 2, 1.0)
    detail = JobDetail(
        *(row, "lab/ann", ("make",), False, "/work", {"cpus": 2}, 60.0, None),
        *("", "", (), {}, (), ()),
        reservation="ume-r7",
        or_queue=True,
        evictable=True,
    )
    with double(state, lambda _: detail):
        out = " ".join(shell("show", "ume-42").out.split())
    assert (
        "reservation ume-r7; what waits at its end waits on; its tasks may start before one and "
        "leave for it" in out
    )
