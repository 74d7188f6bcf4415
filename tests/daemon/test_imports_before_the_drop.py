"""A daemon gives up root's privileges; what it imports after that may lie out of its reach."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

DAEMON = Path(__file__).parents[2] / "src" / "iriai" / "daemon"
BEFORE = {"up.py", "settings.py"}
"""Programs that never give anything up, and what is called before."""

LOADED = """
import sys
from pathlib import Path
import iriai.daemon.__main__
from iriai.daemon.settings import load_cluster
from iriai.daemon.state_directory import StatePaths

paths = StatePaths(Path(sys.argv[1]))
Path(paths.cluster).mkdir(parents=True)
try:
    load_cluster(paths)
except Exception as error:
    print(repr(error), file=sys.stderr)
print(*sys.modules)
"""


def late_imports(path: Path) -> set[str]:
    """What functions of a module import of ours."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= {
                each.module or ""
                for each in ast.walk(node)
                if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("iriai.")
            }
    return found


def test_what_a_member_imports_late_is_there_before_it_gives_up_its_privileges(tmp_path: Path):
    command = [sys.executable, "-c", LOADED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "iriai.daemon.cluster_network" in loaded, done.stderr
    late = {
        (path.name, module)
        for path in sorted(DAEMON.glob("*.py"))
        if path.name not in BEFORE
        for module in late_imports(path)
    }
    assert late  # or nothing was looked at
    assert {each for each in late if each[1] not in loaded} == set()
