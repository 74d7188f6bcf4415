"""Two gangs in Slurm's gang mode, whose time slices are longer."""

from __future__ import annotations

import sys
from pathlib import Path

from harness import peers
from harness.gang_ranks import Notes
from harness.gang_switches import Switches, noted_turns
from harness.kept_folder import kept_folder
from harness.report import Figures, as_number, progress

SLICE_S = 5.0
"""The shortest that Slurm takes."""
SETTLE_SLICES = 1
SLICES, QUICK_SLICES = 6, 3
RUN_S_MAX = 300.0


class SlurmGangs:
    """All runs of this peer."""

    def __init__(self, program: Path, back_ends: int, *, is_quick: bool) -> None:
        self._program, self._back_ends = program, back_ends
        self._slices = QUICK_SLICES if is_quick else SLICES
        self._row: dict[str, object] = {}
        self._is_given_up = False

    def measure(self, figures: Figures) -> None:
        """Have two gangs take turns; once that has failed it is not tried again."""
        if self._is_given_up:
            return
        place = kept_folder("gangs-") / "notes"
        numbers = range(self._back_ends)
        gangs = [[Notes(Path(f"{place}-{gang}-{rank}")) for rank in numbers] for gang in range(2)]
        seconds = (SETTLE_SLICES + self._slices + 1) * SLICE_S
        options = ("--program", self._program, "--notes", place, "--seconds", seconds)
        peer = peers.Peer("slurm", "measure_slurm.py", tuple(map(str, options)))
        try:
            answer = peers.measure(
                peer, Path(sys.executable), "gangs", self._back_ends, seconds_max=RUN_S_MAX
            )
            since_s = as_number(answer["began_s"]) + SETTLE_SLICES * SLICE_S
            turns = noted_turns(gangs, since_s, SLICE_S, self._slices)
            Switches(gangs, turns, SLICE_S).add_to(figures, "slurm_")
        except (peers.PeerError, RuntimeError) as error:
            self._is_given_up = True
            self._row["problem" if self._row else "unavailable"] = str(error)
            progress(f"slurm could not be measured: {error}")
        else:
            self._row = {name: answer[name] for name in ("version", "settings")}

    def answer(self) -> dict[str, object]:
        """Return its version and settings, or why it was not measured."""
        return {"slurm": self._row}
