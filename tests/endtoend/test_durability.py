"""What a client was told is on the disk: the order of system calls, and ids through crashes."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from random import Random

import pytest

from iriai.client import ConnectionLost
from iriai.wire.requests import Submit, Submitted
from tests.support.waiting import until

CALLS = "pwrite64,write,fdatasync,fsync,sendto,sendmsg"
MARK = "the-job-in-the-trace"


class Trace:
    """What strace sees of a process and its threads."""

    def __init__(self, pid: int, path) -> None:
        self._path = path
        options = ["-f", "-y", "-s", "65536", "-e", f"trace={CALLS}", "-o", str(path)]
        self._strace = subprocess.Popen(
            ["strace", *options, "-p", str(pid)], stderr=subprocess.PIPE, text=True
        )
        line = self._strace.stderr.readline()
        assert "attached" in line, line

    def calls(self) -> list[str]:
        """Ends the trace; each call at the place where it ended."""
        self._strace.send_signal(signal.SIGINT)
        self._strace.wait()
        self._strace.stderr.close()
        begun: dict[str, str] = {}
        calls = []
        for line in self._path.read_text().splitlines():
            thread, _, text = line.partition(" ")
            text = text.strip()
            if text.endswith("<unfinished ...>"):
                begun[thread] = text.removesuffix("<unfinished ...>")
            elif text.startswith("<..."):
                calls.append(begun.pop(thread) + text.partition(">")[2])
            else:
                calls.append(text)
        return calls


@pytest.mark.root
def test_a_job_is_synced_before_its_id_is_sent(iriai):
    iriai.start()
    with iriai.client() as client:
        trace = Trace(iriai.pid("daemon"), iriai.directory / "trace")
        job = client.submit(iriai.draft("true", name=MARK, held=True))
        calls = trace.calls()
        client.cancel([job.id])
    wal = re.compile(r"\w+\(\d+<[^>]*-wal>")
    written = [n for n, call in enumerate(calls) if wal.match(call) and MARK in call]
    synced = [n for n, call in enumerate(calls) if wal.match(call) and "sync" in call.split("(")[0]]
    told = [n for n, call in enumerate(calls) if call.startswith("send") and job.id in call]
    assert len(written) >= 1
    assert len(told) == 1
    assert any(written[-1] < sync < told[0] for sync in synced), "\n".join(calls)


@pytest.fixture
def ids_told(iriai):
    """Hands in many single jobs while the daemon is killed; the ids that were told."""

    def submit_and_kill(delay_s: float) -> list[str]:
        drafts = [iriai.draft("true", output=os.devnull) for _ in range(200)]
        with iriai.client() as client:
            channel = client._connection.channel
            numbers = [channel.begin(Submit(draft)) for draft in drafts]
            time.sleep(delay_s)
            iriai.kill("daemon")
            return list(_answered(channel, numbers))

    return submit_and_kill


def _answered(channel, numbers):
    """The ids that came before the daemon went away."""
    with suppress(ConnectionLost):
        for number in numbers:
            yield channel.finish(number, Submitted).id


def test_an_id_that_was_told_is_of_a_job_that_ends(iriai, ids_told):
    iriai.start()
    random = Random(7)
    for _ in range(3):
        told = ids_told(random.uniform(0.0, 0.05))
        until(iriai.runs_tasks, "the return of the daemon")
        with iriai.client() as client:
            outcomes = client.wait(told)
            assert {outcome.cause for outcome in outcomes} <= {"completed"}
            assert len(outcomes) == len(told)
            # Ids are given once: whatever follows is newer.
            after = client.submit(iriai.draft("true", output=os.devnull))
            assert all(_number(after.id) > _number(job) for job in told)
            client.wait([after.id])


def test_what_was_answered_holds_after_a_crash(iriai):
    iriai.start()

    def crash_after(act):
        with iriai.client() as client:
            answer = act(client)
            iriai.kill("daemon")
        until(iriai.runs_tasks, "the return of the daemon")
        return answer

    def state(job):
        with iriai.client() as client:
            return client.show(job).row.state

    task = iriai.draft("true", output=os.devnull, cpus=10**6, wait_for_resources=True)
    kept = crash_after(lambda client: client.submit(task)).id
    assert state(kept) == "queued"
    crash_after(lambda client: client.hold([kept]))
    assert state(kept) == "held"
    crash_after(lambda client: client.release([kept]))
    assert state(kept) == "queued"
    crash_after(lambda client: client.cancel([kept]))
    with iriai.client() as client:
        assert client.show(kept).row.cause == "cancelled"
        assert client.jobs() == []


def test_a_task_that_was_cancelled_before_a_crash_ends_after_it(iriai):
    iriai.configure("[jobs]\nkill_grace_s = 0.5\n")
    iriai.start()
    with iriai.client() as client:
        # It takes the grace to end, so the crash comes before its end does.
        stubborn = iriai.draft("sh", "-c", "trap '' TERM; sleep 1000; sleep 1000")
        job = client.submit(stubborn).id
        until(lambda: client.show(job).row.state == "running", "the start")
        client.cancel([job])
        iriai.kill("daemon")
        iriai.kill("launcher")
        [outcome] = client.wait([job])
        assert outcome.cause == "cancelled"
        assert [row.attempt for row in client.show(job).attempts] == [1]


def _number(job: str) -> int:
    return int(job.rpartition("-")[2])


@pytest.mark.root
def test_an_end_is_in_the_journal_before_it_is_reported_and_synced_within_two_seconds(iriai):
    iriai.start()
    with iriai.client() as client:
        trace = Trace(iriai.pid("launcher"), iriai.directory / "trace")
        client.wait([client.submit(iriai.draft("true")).id])
        time.sleep(2.0)
        calls = trace.calls()
    journal = re.compile(r"\w+\(\d+<[^>]*/journal>")
    end = "completed"
    [written] = [n for n, call in enumerate(calls) if journal.match(call) and end in call]
    [told] = [n for n, call in enumerate(calls) if call.startswith("send") and end in call]
    synced = [n for n, call in enumerate(calls) if journal.match(call) and "sync" in call[:12]]
    assert written < told
    assert any(sync > written for sync in synced), "\n".join(calls)
