"""Files of the kernel as a machine has them, in a directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from iriai.launcher.owner.polled.polled_sensor import ConditionProbe, LookPace, PolledSensor
from iriai.model.owner import SensorState

LAUNCHER = 500


class Tree:
    """One directory of such files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def put(self, path: str, text: str | bytes) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())

    def remove(self, path: str) -> None:
        place = self.root / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    # --- processes -------------------------------------------------------------------------------

    def process(
        self, pid: int, parent: int = 1, name: str = "sh", *, ticks: int = 0, waited: int = 0
    ) -> None:
        """A process, and its place among the children of its parent."""
        text = f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 {waited} 0 20 0 1 0 99 0 0"
        self.put(f"{pid}/stat", text)
        self.put(f"{pid}/comm", name[:15] + "\n")
        children = self.root / f"{pid}/task/{pid}/children"
        if not children.exists():
            self.put(f"{pid}/task/{pid}/children", "")
        above = self.root / f"{parent}/task/{parent}/children"
        if above.exists() and str(pid) not in above.read_text().split():
            above.write_text(above.read_text() + f"{pid} ")

    def end(self, pid: int) -> None:
        shutil.rmtree(self.root / str(pid))

    def executes(self, pid: int, path: str) -> None:
        os.symlink(path, self.root / f"{pid}/exe")


class Watched:
    """A sensor of a condition that is asked as its process asks it, with a clock of its own."""

    def __init__(self, probe: ConditionProbe, *, is_busy: bool = True) -> None:
        self.pace = LookPace()
        self.pace.is_busy = is_busy
        self.sensor = PolledSensor(probe, self.pace)
        self.now_s = 1000.0
        self.looks = 0

    def signs(self, seconds: float = 1.0) -> int:
        """How many signs there are from now on, until so much later."""
        count, until_s = self._take(), self.now_s + seconds
        while self.sensor.due_s() < until_s:
            self.now_s = max(self.now_s, self.sensor.due_s())
            count += self._take()
        self.now_s = until_s
        return count

    def _take(self) -> int:
        self.looks += self.sensor.due_s() <= self.now_s
        return int(self.sensor.take((), self.now_s))

    @property
    def state(self) -> SensorState:
        return self.sensor.state()

    @property
    def holds(self) -> bool:
        """Whether it is so at the next look."""
        self.signs()
        return self.state.holds
