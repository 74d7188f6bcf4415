"""Memory that a flood took goes back to the system."""

from __future__ import annotations

from types import SimpleNamespace

from iriai.daemon.loop.engine import FREED_MIN_BYTES, LOOK_S, FreedMemory


def test_memory_is_given_back_once_jobs_have_finished_and_few_still_do():
    freed, alarms, given = SimpleNamespace(freed_bytes=0), [], []
    times = SimpleNamespace(later=lambda delay_s, action: alarms.append((delay_s, action)))
    FreedMemory(times, freed, lambda: given.append(freed.freed_bytes)).begin()
    seen = []
    for more_bytes in (FREED_MIN_BYTES - 1, 0, FREED_MIN_BYTES, 100, 0):
        freed.freed_bytes += more_bytes
        [(delay_s, look)] = alarms
        assert delay_s == LOOK_S
        alarms.clear()
        look()
        seen.append(len(given))
    assert seen == [0, 0, 0, 1, 1]
