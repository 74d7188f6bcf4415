"""An X server without a screen, in which somebody presses keys."""

from __future__ import annotations

import os
import subprocess


class XServer:
    """A virtual one; it needs no rights."""

    def __init__(self) -> None:
        command = ["Xvfb", "-displayfd", "1", "-screen", "0", "320x200x8", "-nolisten", "tcp"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.display = f":{self._process.stdout.readline().strip()}"

    def press(self, key: str = "a") -> None:
        subprocess.run(["xdotool", "key", key], env=self.environment(), check=True)

    def environment(self) -> dict[str, str]:
        return os.environ | {"DISPLAY": self.display}

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
