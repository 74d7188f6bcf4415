"""Whatever is killed, every task ends, and none runs twice unless its first attempt was lost.

IRIAI_SEED repeats the moments of an earlier run, IRIAI_KILLS makes the long loops shorter.
"""

import os

import pytest

from tests.endtoend.crashes import MOMENTS, RUNNING, STEPS, CrashLoop

KILLS = int(os.environ.get("IRIAI_KILLS") or 50)
QUEUED = 5_000


def test_every_task_ends_once_whatever_is_killed(iriai, seed, record_property):
    loop = CrashLoop(iriai, seed, sleep_s=2)
    loop.load(RUNNING + 1_000)
    for victim in (*MOMENTS, *STEPS):
        loop.crash(victim)
    record_property("counted", loop.finish())


@pytest.mark.soak
@pytest.mark.parametrize("victim", [*MOMENTS, *STEPS])
def test_every_task_ends_once_through_many_crashes(iriai, seed, record_property, victim):
    loop = CrashLoop(iriai, seed, sleep_s=1)
    loop.load(RUNNING + QUEUED)
    for _ in range(KILLS):
        loop.crash(victim, queued=QUEUED)
    counted = loop.finish()
    record_property("counted", counted)
    if victim == "daemon" or victim in STEPS[:3]:
        # Tasks belong to the launcher: a new daemon takes up those that run.
        assert counted["lost"] == 0
        assert counted["began"] == counted["tasks"]
