"""Parallel pipes: each rank's stages, one into the next, as with a shell's pipefail."""

from __future__ import annotations

import os
import signal

import pytest

from iriai.launcher.contract.messages import Discard, EndInput, Exit, Terminate
from iriai.launcher.spawn.stage_pipes import StagePipes
from iriai.launcher.spawn.streams import NO_ENDS, TaskEnds
from iriai.launcher.tasks.rank_processes import RankEnd, RankProcesses, RankStage
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Interaction, Layout
from iriai.system.passwd_cache import find_login
from tests.launcher.harness import Lab, until
from tests.launcher.tasks.test_seats import lines, run, start

SHELL = ("sh", "-c")


def sh(*texts: str) -> tuple[tuple[str, ...], ...]:
    return tuple((*SHELL, text) for text in texts)


def pipe(lab: Lab, *texts: str, ranks: int = 1, **more: object) -> Exit:
    return run(lab, lab.spec(pipes=sh(*texts), **more), ranks)


def test_each_ranks_output_goes_through_its_own_stages(lab: Lab) -> None:
    end = pipe(lab, "echo $IRIAI_RANK", "sed 's/^/a/'", "sed 's/$/z/'", ranks=5)

    assert (end.cause, end.exit_code, end.message) == (EndCause.COMPLETED, 0, "")
    assert lines(lab) == [f"a{rank}z" for rank in range(5)]


def test_the_last_stage_that_failed_tells_the_code(lab: Lab) -> None:
    end = pipe(lab, "cat; exit 3", "cat; exit 4", "cat")
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 4)
    assert end.message == "stage 2 of rank 0 ended with exit code 4"


def test_a_stage_that_failed_ends_other_ranks_once_its_own_rank_has_ended(lab: Lab) -> None:
    end = pipe(lab, "[ $IRIAI_RANK = 1 ] || exec sleep 600; exit 9", "cat", ranks=3)
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 9)


def test_a_writer_whose_reader_has_ended_gets_the_signal(lab: Lab) -> None:
    end = pipe(lab, "exec yes", "head -n 1")
    assert (end.cause, end.signal) == (EndCause.FAILED, signal.SIGPIPE)
    assert end.message == "stage 1 of rank 0 ended by SIGPIPE"
    assert lab.read() == "y\n"


def test_much_passes_through_sixteen_stages(lab: Lab) -> None:
    assert pipe(lab, "head -c 3000000 /dev/zero", *(["cat"] * 14), "wc -c").exit_code == 0
    assert lab.read().strip() == "3000000"


def test_errors_of_all_stages_go_where_those_of_the_rank_go(lab: Lab) -> None:
    pipe(lab, "echo first >&2; echo passed", "cat; echo second >&2", error="errors")
    assert (lab.read(), lines(lab, "errors")) == ("passed\n", ["first", "second"])
    pipe(lab, "echo first >&2; echo passed", "cat", output="together")
    assert lines(lab, "together") == ["first", "passed"]


def test_input_goes_to_the_first_stage(lab: Lab) -> None:
    run(lab, lab.spec(pipes=sh("cat", "tr a-z A-Z")), 2, stdin=b"stored\n")
    assert lab.read() == "STORED\n"


def test_a_stage_that_is_not_there_is_named(lab: Lab) -> None:
    end = run(lab, lab.spec(pipes=(("true",), ("no-such-command", "x"))), 1)
    assert (end.cause, end.exit_code) == (EndCause.FAILED, 127)
    assert "stage 2 of rank 0: no-such-command: command not found" in end.message


def test_a_pipe_that_is_watched_has_the_streams_of_its_ranks(lab: Lab) -> None:
    stream = {"interaction": Interaction.STREAM, "takes_input": True}
    attempt = start(lab, lab.spec(pipes=sh("cat; echo no >&2", "tr a-z A-Z"), **stream), 2)
    lab.link.until(lambda: attempt.seat(1) in lab.link.ends, "streams")
    os.write(lab.link.ends[attempt]["in"], b"typed\n")
    os.close(lab.link.ends[attempt].pop("in"))
    lab.link.send(EndInput(attempt))

    assert lab.link.printed(attempt) == "TYPED\n"
    assert os.read(lab.link.ends[attempt]["err"], 100) == b"no\n"


def test_limits_count_all_stages(lab: Lab) -> None:
    eat = "python3 -c 'b = bytearray(80 << 20); import time; time.sleep(60)'"
    end = pipe(lab, eat, eat, eat, resources=Resources(1, 200 << 20))
    assert end.cause is EndCause.MEMORY_LIMIT


def test_of_steps_that_follow_one_another_each_counts_by_itself(lab: Lab) -> None:
    eat = "python3 -c 'b = bytearray(80 << 20)'"
    end = run(
        lab, lab.spec("sh", "-c", f"{eat}; {eat}; {eat}", resources=Resources(1, 200 << 20)), 1
    )
    assert end.cause is EndCause.COMPLETED


def test_an_end_reaches_all_stages_and_no_descriptor_stays_open(lab: Lab) -> None:
    assert lab.machine.process is not None
    files = f"/proc/{lab.machine.process.pid}/fd"
    before = 0
    for number in range(5):
        attempt = start(lab, lab.spec(pipes=sh("echo x > ready; sleep 600", "sleep 600")), 20)
        lab.wait_for("ready")
        lab.link.send(Terminate((attempt,), EndCause.CANCELLED, 0.1 * (number % 2)))
        assert lab.link.exit_of(attempt).cause is EndCause.CANCELLED
        lab.link.send(Discard((attempt,)))
        (lab.folder / "ready").unlink()
        lab.machine.wait_until_read(lab.link)
        before = before or len(os.listdir(files))  # the control group has its files open by now
    lab.machine.wait_until_read(lab.link)
    until(lambda: len(os.listdir(files)) <= before, "the end of all descriptors")


def test_pipes_that_contradict_start_nothing(lab: Lab) -> None:
    for more, words in (
        ({"layout": Layout.FIRST}, "the stages of a pipe run for each rank"),
        ({"interaction": Interaction.TERMINAL}, "several processes cannot have one terminal"),
    ):
        assert words in pipe(lab, "true", "true", **more).message
    assert "neither a command" in run(lab, lab.spec(pipes=(("true",), ())), 1).message
    large = run(lab, lab.spec(pipes=(("true",), ("x" * 200_000,))), 1)
    assert "an argument has 200000 bytes" in large.message


# --- the parts -----------------------------------------------------------------------------------


def test_a_rank_of_a_pipe_has_ended_with_the_last_of_its_stages() -> None:
    processes = RankProcesses(4, 2, 3, keep_going=True)
    for pid in range(6):
        processes.started(pid)
    assert processes.next_place is None
    for pid, status in ((4, 256), (5, 0), (1, 512), (0, 768), (3, 0)):
        processes.ended(pid, status, None)
    assert processes.failed == RankEnd(RankStage(5, 1), 256, None)
    assert not processes.is_over
    processes.ended(2, 0, None)
    assert processes.failed == RankEnd(RankStage(4, 1), 512, None)
    assert processes.is_over


def test_what_failed_once_the_others_are_ended_does_not_count() -> None:
    processes = RankProcesses(0, 3, 1, keep_going=False)
    for pid in (10, 11, 12):
        processes.started(pid)
    processes.ended(12, 256, None)
    assert processes.must_end()
    assert not processes.must_end()
    processes.ended(10, 15, None)
    processes.ended(11, 15, None)
    assert processes.failed == RankEnd(RankStage(2, 0), 256, None)


def test_pipes_that_cannot_be_made_leave_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    login = find_login("root") or find_login("daemon")
    assert login is not None
    out, err = os.pipe()
    pipes = StagePipes(3)
    pipes.ends(0, login, lambda: TaskEnds(-1, out, err)).close()

    def refuse(_: int) -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe2", refuse)
    with pytest.raises(OSError, match="Too many"):
        pipes.ends(1, login, lambda: NO_ENDS)
    for fd in (out, err):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
