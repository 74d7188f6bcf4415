"""The ways to freeze tasks that benchmarks measure, and the programs of these tasks."""

from __future__ import annotations

import subprocess
from pathlib import Path

FREEZERS = {
    "v2": ("unified", "cgroup.freeze", (b"1", b"0")),
    "v1": ("freezer", "freezer.state", (b"FROZEN", b"THAWED")),
}
"""Of both versions of control groups: folder, file of a group, and what freezes and thaws it."""
KINDS = (*FREEZERS, "none")
"""`none`: signals."""


def compile_program(folder: Path, text: str) -> Path:
    """Return the program of a text in C."""
    source, program = folder / "program.c", folder / "program"
    source.write_text(text)
    subprocess.run(["cc", "-O1", "-o", str(program), str(source)], check=True)
    return program
