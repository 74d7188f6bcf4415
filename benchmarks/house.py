"""The house in figures: how the source is laid out, and how far one submission goes through it.

    python benchmarks/house.py [BASE] [--head REVISION]

`lines_code`: lines that are neither blank, comment nor docstring; the helper in C and the papers'
experiments count, wherever they lie. `files`. `largest_folder`: the most files that a folder has,
`model` aside. `twins`: public class names with more than one home. `modules_with_one_importer`.
`files_per_submit`: files that run, in all four processes, for each of seven `iriai submit -- sleep
0.5`, one by one, at an iriai that has run some before; modules of packages (`__init__.py`) aside.
`moves_per_submit`: calls of the daemon from one file to another then, the least of the seven.
`docstrings`: the share of public functions and classes that have one. `driver_lines`: every
line of `daemon` and `supervisor`; `deciding_lines`: those of its functions that neither await nor
reach a socket, file, clock or process, by the rule in `harness/driver_lines.py`; `--deciding` lists
these functions.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import trace_moves
from harness.commit import Commit
from harness.driver_lines import Source, driver_figures, modules_of
from harness.kept_folder import kept_folder
from harness.report import finish, machine_facts
from harness.task_user import task_user

SIDE = Path(__file__).resolve().parent / "harness" / "house_side.py"
EXPERIMENTS = "benchmarks/experiments"
_C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_RUN_S_MAX = 300.0


def sources(root: Path) -> list[Path]:
    """Return the Python files of the product."""
    return sorted((root / "src" / "iriai").rglob("*.py"))


def _docstring_lines(tree: ast.Module) -> set[int]:
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def code_lines(path: Path) -> int:
    """Return how many lines of a Python or C file are code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return sum(1 for line in _C_COMMENT.sub("", text).splitlines() if line.strip())
    left_out = _docstring_lines(ast.parse(text))
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in left_out
    )


def _public(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in ast.walk(tree):
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node


def layout(root: Path) -> dict[str, object]:
    """Return the figures that the text of the source gives."""
    base = root / "src" / "iriai"
    files = sources(root)
    folders = Counter(
        str(each.parent.relative_to(base)) for each in files if each.stem != "__init__"
    )
    classes, importers = defaultdict(set), defaultdict(set)
    public = documented = 0
    for each in files:
        tree = ast.parse(each.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].add(each)
        for found in ast.walk(tree):
            if isinstance(found, ast.ImportFrom) and found.module:
                importers[found.module].add(each)
        for named in _public(tree):
            public += 1
            documented += ast.get_docstring(named) is not None
    moved = sorted((root / EXPERIMENTS).rglob("*.py"))
    in_c = [each for end in ("c", "h") for each in sorted(base.rglob(f"*.{end}"))]
    return {
        "lines_code": sum(map(code_lines, [*files, *in_c, *moved])),
        "files": len(files),
        "largest_folder": max(count for name, count in folders.items() if name != "model"),
        "twins": sum(len(homes) > 1 for homes in classes.values()),
        "modules_with_one_importer": sum(
            len(who) == 1 for module, who in importers.items() if module.startswith("iriai.")
        ),
        "public_names": public,
        "docstrings": round(documented / public, 4),
        **driver_figures(root),
    }


def one_submission(commit: Commit) -> dict[str, object]:
    """Return how far one submission goes, at the iriai of a commit."""
    environment = {**os.environ, trace_moves.VARIABLE: str(kept_folder("moves-"))}
    Path(environment[trace_moves.VARIABLE]).chmod(0o1777)
    done = subprocess.run(
        [str(commit.python), str(SIDE)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment,
        timeout=_RUN_S_MAX,
    )
    parts: dict[str, Any] = json.loads(done.stdout)
    files = {name for part in parts.values() for name in part["files"]}
    return {
        "files_per_submit": len(files),
        "moves_per_submit": parts["daemon"]["moves"],
        "submit": {part: {**each, "files": len(each["files"])} for part, each in parts.items()},
    }


def main() -> None:
    """Measure one commit, or two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", help="a commit to compare with")
    parser.add_argument("--head", default="HEAD", help="the commit that is measured")
    parser.add_argument("--quick", action="store_true", help="only what the text of HEAD gives")
    parser.add_argument("--deciding", action="store_true", help="the functions behind that figure")
    given = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    if given.deciding:
        found = sorted(Source(modules_of(here)).deciding(), key=lambda each: each[2])
        for name, line, lines in found:
            print(f"{lines:4} {name} (line {line})")
        finish({"deciding_lines": sum(lines for _, _, lines in found)})
        return
    if given.quick:
        finish({"head": layout(here)})
        return
    task_user()
    figures: dict[str, object] = {}
    for name, revision in (("base", given.base), ("head", given.head)):
        if revision is None:
            continue
        commit = Commit(revision)
        commit.lay_out()
        figures[name] = {
            "commit": commit.name,
            **layout(commit.directory),
            **one_submission(commit),
        }
    finish({**figures, "machine": machine_facts(Path(tempfile.gettempdir()))})


if __name__ == "__main__":
    main()
