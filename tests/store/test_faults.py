"""A disk that refuses for a moment (strace injects it): nothing is lost, nothing is there twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

from iriai.store import Store
from tests.store.records import accepted, event

pytestmark = pytest.mark.long

BATCHES = 12
PROGRAM = """
import sys
from pathlib import Path
from iriai.store import Store, StoreFailure
from tests.store.records import accepted, event
store = Store.open(Path(sys.argv[1]))
for number in range(1, int(sys.argv[2]) + 1):
    for attempt in range(10):
        try:
            store.write([accepted(number), event(number, 1)])
            break
        except StoreFailure as failure:
            assert failure.passing
            print(number, failure.code)
    else:
        sys.exit(f"batch {number} was never written")
"""


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        ("fdatasync", "EIO", "state-not-writable"),
        ("pwrite64", "EIO", "state-not-writable"),
        ("pwrite64", "EDQUOT", "state-not-writable"),
        ("pwrite64", "ENOSPC", "no-space"),
    ],
)
def test_a_batch_that_the_disk_refused_is_written_again(path, tmp_path, call, error, code):
    inject = f"inject={call}:error={error}:when=7..8"
    log = ["-o", str(tmp_path / "trace"), "-P", f"{path}-wal", "-e", f"trace={call}", "-e", inject]
    program = [sys.executable, "-c", PROGRAM, str(path), str(BATCHES)]
    done = subprocess.run(["strace", *log, *program], capture_output=True, text=True, check=True)
    refused = [line.split() for line in done.stdout.splitlines()]
    assert {word for _, word in refused} == {code}
    store = Store.open(path)
    jobs = store.load().jobs
    store.close()
    assert [(job.number, job.events) for job in jobs] == [
        (number, [event(number, 1)]) for number in range(1, BATCHES + 1)
    ]
    assert jobs[0].spec == accepted(1).spec
