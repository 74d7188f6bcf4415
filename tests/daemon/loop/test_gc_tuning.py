"""Of a large heap, the collector looks at what came since its last long pause, and at no more."""

from __future__ import annotations

import subprocess
import sys

STORY = """
import gc
from iriai.daemon.loop import gc_tuning

gc_tuning.PAUSE_MAX_S = {pause_max_s}
gc_tuning.keep_pauses_short()
begun = gc.get_freeze_count()
kept = [[number] for number in range(50_000)]
gc.collect()
print(gc.get_freeze_count() - begun > 50_000)
"""


def sets_aside(pause_max_s: float) -> bool:
    """In a process of its own: what is set aside there is set aside for good."""
    story = STORY.format(pause_max_s=pause_max_s)
    said = subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, check=True)
    return said.stdout == "True\n"


def test_what_survives_a_long_collection_is_set_aside():
    assert sets_aside(0.0)


def test_what_survives_a_short_one_is_not():
    assert not sets_aside(3600.0)
