"""Two gangs of whole daemons: a front end, and back ends of one processor each."""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path

from harness.gang_ranks import Notes, wait_until
from harness.gang_switches import Switches, noted_turns, steady_s
from harness.private_cluster import PrivateCluster
from iriai.client import Client
from iriai.client.job_builder import draft

SECTIONS = """
[gang]
quantum_s = {quantum_s}
[queues.0]
mode = "gang"
"""
MEMORY_BYTES = 64 << 20
"""Of each rank: a job without a limit takes no turns."""
RANK = 'exec "$0" note "$1-$IRIAI_RANK"'
SETTLE_S = 2.0


def daemons_switches(program: Path, back_ends: int, quantum_s: float, slices: int) -> Switches:
    """Run two jobs of a rank on each back end, and return what their ranks noted."""
    sections = SECTIONS.format(quantum_s=quantum_s)
    with PrivateCluster(back_ends, 1, sections=sections) as cluster:
        here = shutil.copy(program, cluster.work)
        places = [cluster.work / f"notes-{number}" for number in range(2)]
        gangs = [[Notes(Path(f"{each}-{rank}")) for rank in range(back_ends)] for each in places]
        submit = partial(_submit, str(here), places, back_ends)
        cluster.as_user(submit)
        wait_until(lambda: all(notes[1] for gang in gangs for notes in gang), "ranks of daemons")
        since_s = steady_s() + SETTLE_S
        time.sleep(SETTLE_S + (slices + 1) * quantum_s)
        turns = noted_turns(gangs, since_s, quantum_s, slices)
        return Switches(gangs, turns, quantum_s)


def _submit(program: str, places: list[Path], ranks: int, client: Client) -> None:
    for place in places:
        client.submit(
            draft(
                ("/bin/sh", "-c", RANK, program, str(place)),
                cwd=place.parent,
                ranks=str(ranks),
                memory_bytes=MEMORY_BYTES,
                output=os.devnull,
            )
        )
