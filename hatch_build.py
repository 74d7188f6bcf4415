"""Build hook: compiles the small C program between launcher and task.

The program is optional: without a C compiler, or when the compiler fails, the installation goes on
without it and the launcher takes its slower way (`iriai doctor` says so). docs/adr/0001 argues it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAM = "src/iriai/launcher/iriai-exec"
# Static first: such a program starts faster (no dynamic loader) and needs nothing of the machine
# it is copied to. Some systems ship no static C library, hence the second line.
FLAGS = (("-O2", "-static"), ("-O2",))


def compile_program(root: Path) -> Path | None:
    """Compile iriai-exec below `root` and return its path, or None where that is not possible."""
    source = root / f"{PROGRAM}.c"
    target = root / PROGRAM
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not source.exists():
        return None
    if compiler is None:
        print(
            "iriai: no C compiler, so the launcher will start tasks the slower way", file=sys.stderr
        )
        return None
    # Into a file beside it, then renamed: a running launcher keeps the program it has open, and a
    # failed compilation leaves what was there.
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
    for flags in FLAGS:
        command = [compiler, *flags, "-o", str(fresh), str(source)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if outcome.returncode == 0:
            fresh.replace(target)
            return target
    fresh.unlink(missing_ok=True)
    print(f"iriai: {' '.join(command)} failed: {outcome.stderr.strip()}", file=sys.stderr)
    return None


class CompileProgram(BuildHookInterface[Any]):
    """Put the compiled program into wheels, and beside its source for editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected; a wheel that holds machine code says so."""
        if self.target_name != "wheel" or compile_program(Path(self.root)) is None:
            return
        build_data["artifacts"].append(f"/{PROGRAM}")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"


if __name__ == "__main__":
    raise SystemExit(0 if compile_program(Path(__file__).resolve().parent) else 1)
