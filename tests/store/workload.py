"""A deterministic sequence of batches, and the program that writes them while it is traced.

Run as a program: `workload.py DIRECTORY SYNCHRONOUS`. It makes a store there, writes batch after
batch and appends the number of each to the file `acknowledged` as soon as `write` has returned.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

from iriai.model.ids import AttemptId
from iriai.model.records import ClaimsDropped, Incarnated, Snapshot
from iriai.store import Store, sqlite
from tests.store.records import accepted, claim, counter, event, finished, result

BATCHES = 40
SESSIONS = 3
"""The store is closed and opened again in between, which removes the log."""


def batches():
    """What is written, in order. Each begins with a job whose name says which batch it is."""
    random = Random(1)
    alive = []
    for number in range(1, BATCHES + 1):
        batch = [accepted(number, name=f"batch-{number:04}", payloads=((f"d{number}", b"x" * 99),))]
        alive.append(number)
        batch += [event(job, 2 * number) for job in alive if random.random() < 0.5]
        batch += [claim(number, index) for index in range(random.randrange(5))]
        batch += [result(number, index) for index in range(random.randrange(30))]
        batch += [counter(value=float(number)), Incarnated(number)]
        batch.append(ClaimsDropped((AttemptId("ume", number - 1, 0, 1),)))
        if random.random() < 0.2:
            batch.append(event(alive[0], 2 * number + 1, Snapshot(b"folded")))
        if random.random() < 0.2:
            batch.append(finished(alive.pop(0)))
        yield batch


def write_all(directory, synchronous):
    """Make a store, and write all batches to it."""
    sqlite.CHECKPOINT_PAGES = 50  # often, for there is little to write
    acknowledged = os.open(directory / "acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    pending = list(enumerate(batches(), start=1))
    for session in range(SESSIONS):
        store = Store.open(directory / "iriai.db")
        store._connection.execute(f"PRAGMA synchronous={synchronous}")
        for number, batch in _part(pending, session):
            store.write(batch)
            os.write(acknowledged, b"%d\n" % number)
        store.checkpoint()
        store.close()


def _part(pending, session):
    size = -(-len(pending) // SESSIONS)
    return pending[session * size : (session + 1) * size]


if __name__ == "__main__":
    write_all(Path(sys.argv[1]), sys.argv[2])
