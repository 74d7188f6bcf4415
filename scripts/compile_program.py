"""Compiles the small C program between launcher and task, beside its source.

It is optional: without a C compiler, or when the compiler fails, the launcher takes its slower way
(`iriai doctor` says so). Used by the build hook and by make; docs/adr/0010 argues it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "src/iriai/launcher/spawn/iriai-exec"
# Without a C library first: it is started once for every task, and a library's own start takes
# longer than all it does (docs/adr/0010). Where its source does not know the processor's system
# calls: with a static library, which needs no dynamic loader; some systems ship none, hence the
# last line. Warnings of the linker count, since without a library it warns where it should fail.
FREESTANDING = ("-nostdlib", "-ffreestanding", "-fno-stack-protector", "-Wl,--fatal-warnings")
FLAGS = (
    ("-O2", "-static", "-DIRIAI_FREESTANDING", *FREESTANDING),
    ("-O2", "-static"),
    ("-O2",),
)


def compile_program(root: Path) -> Path | None:
    """Compile iriai-exec below `root` and return its path, or None where that is not possible.

    Where it is not, no program older than its source stays behind: the launcher would trust it.
    """
    source = root / f"{PROGRAM}.c"
    target = root / PROGRAM
    if not source.exists():
        return None
    problem = _compile(source, target)
    if not problem:
        return target
    print(f"iriai: {problem}; tasks will be started the slower way", file=sys.stderr)
    if target.exists() and target.stat().st_mtime < source.stat().st_mtime:
        target.unlink()
    return None


def _compile(source: Path, target: Path) -> str:
    """Compile `source` to `target` and return what went wrong, "" for nothing."""
    name = os.environ.get("CC", "cc")
    compiler = shutil.which(name)
    if compiler is None:
        return f"no C compiler ({name})"
    # Into a file beside it, then renamed: a launcher may be executing the old one.
    fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
    problem = ""
    for flags in FLAGS:
        command = [compiler, *flags, "-o", str(fresh), str(source)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if outcome.returncode == 0:
            fresh.replace(target)
            return ""
        problem = f"`{' '.join(command)}` failed: {outcome.stderr.strip()}"
    fresh.unlink(missing_ok=True)
    return problem


if __name__ == "__main__":
    compile_program(ROOT)
