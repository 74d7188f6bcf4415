"""Build hook: wheels, editable ones too, come with the compiled program of the launcher.

Without a C compiler the installation goes on without it; docs/adr/0010 argues both.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAM = "src/iriai/launcher/spawn/iriai-exec"


class CompiledProgram(BuildHookInterface[Any]):
    """Compile iriai-exec and add it to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected; a wheel that holds machine code says so."""
        root = Path(self.root)
        subprocess.run([sys.executable, str(root / "scripts" / "compile_program.py")], check=True)
        if not (root / PROGRAM).exists():
            return
        build_data["artifacts"].append(f"/{PROGRAM}")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
