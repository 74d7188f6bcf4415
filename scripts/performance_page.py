"""Writes docs/performance.md from what benchmarks have answered, and keeps their answers.

    python -m scripts.performance_page             write the page
    python -m scripts.performance_page --check     fail if the page is not what would be written
    python benchmarks/latency.py | python -m scripts.performance_page --keep latency

`--keep` stores the last JSON object of its input in benchmarks/results/, in place of an earlier
one, and writes the page; it has to say of which commit and on what machine it is. The words around
the figures are in benchmarks/results/page.md. There `{{NAME.KEY.KEY|FORMAT}}` is a figure of
benchmarks/results/NAME.json, a `*` as key the range over all, and `/` divides two figures;
`{{table NAME}}` stands for a table: of the goals that were missed, of causes, of counts that rose,
of what came in for clusters and was paid by everybody, of the result files.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
RISES = ROOT / "benchmarks" / "counts" / "rises.toml"
PAGE = ROOT / "docs" / "performance.md"
_PLACE = re.compile(r"\{\{(.+?)\}\}")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_SHOWN = 8
"""Characters of a commit."""


class PageProblem(Exception):
    """The page cannot be written, or a result not kept; says why, and what to do."""


Results = Mapping[str, Mapping[str, Any]]


def read_results(folder: Path) -> Results:
    """Return each kept result by the name of its file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def checked(result: object, name: str) -> Mapping[str, Any]:
    """Return a result that says where it comes from. Raises `PageProblem`."""
    if not isinstance(result, dict):
        raise PageProblem(f"the answer of {name} is no JSON object")
    commit = str(result.get("commit", ""))
    if commit.endswith("-dirty"):
        raise PageProblem(
            f"{name} was measured with changes that no commit has: commit them and measure again"
        )
    if not _COMMIT.fullmatch(commit):
        raise PageProblem(f"the result of {name} does not say of which commit it is")
    if not isinstance(result.get("machine"), dict):
        raise PageProblem(f"the result of {name} does not say on what machine it was measured")
    return result


def keep(name: str, output: str, folder: Path) -> Path:
    """Store what a program has printed; return the file. Raises `PageProblem`."""
    lines = [line for line in output.splitlines() if line.strip()]
    try:
        result = checked(json.loads(lines[-1]), name)
    except (IndexError, json.JSONDecodeError):
        raise PageProblem(f"{name} has not ended with a JSON object: nothing is kept") from None
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def _found(results: Results, path: str) -> list[float | str]:
    """Return the figures at a path such as `throughput.peers.*.per_s`."""
    name, *keys = path.split(".")
    if name not in results:
        raise PageProblem(f"{{{{{path}}}}}: there is no benchmarks/results/{name}.json")
    found: list[Any] = [results[name]]
    for key in keys:
        try:
            found = [
                inner for each in found for inner in (each.values() if key == "*" else [each[key]])
            ]
        except (KeyError, TypeError, AttributeError):
            raise PageProblem(
                f"{{{{{path}}}}}: benchmarks/results/{name}.json has no {key}"
            ) from None
    return found


def figure(results: Results, expression: str) -> list[float | str]:
    """Return the value of a placeholder without its format; several for a range."""
    first, _, divisor = (part.strip() for part in expression.partition("/"))
    found = _found(results, first)
    if not divisor:
        return found
    if re.fullmatch(r"[\d.]+", divisor):
        by = float(divisor)
    else:
        [other] = _found(results, divisor)
        by = float(other)
    return [float(each) / by for each in found]


def text_of(results: Results, place: str) -> str:
    """Return what stands in the page for a placeholder."""
    expression, _, shape = place.partition("|")
    values = figure(results, expression)
    if shape == "commit":
        return str(values[0])[:_SHOWN]
    texts = [format(each, shape) for each in (min(values, key=float), max(values, key=float))]
    return texts[0] if len(values) == 1 else " to ".join(texts)


def _rows(head: list[str], rows: list[list[str]], otherwise: str) -> str:
    if not rows:
        return otherwise
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join((lines[0], "|---" * len(head) + "|", *lines[1:]))


def missed_goals(results: Results, goals: list[dict[str, Any]]) -> str:
    """Return the table of goals that the kept results do not reach, or do not have."""
    rows = []
    for goal in goals:
        is_lower = "at_least" in goal
        limit = float(goal["at_least" if is_lower else "at_most"])
        wanted = f"{'at least' if is_lower else 'at most'} {limit:,g}"
        try:
            values = [float(each) for each in figure(results, goal["value"])]
        except PageProblem:
            rows.append([goal["what"], wanted, "not measured"])
            continue
        worst = min(values) if is_lower else max(values)
        if worst < limit if is_lower else worst > limit:
            rows.append([goal["what"], wanted, f"{float(f'{worst:.3g}'):,g}"])
    return _rows(["figure", "goal", "reached"], rows, "All goals are reached.")


def causes(entries: list[dict[str, Any]]) -> str:
    """Return the table of what was found to cost."""
    rows = [
        [each["commit"][:_SHOWN], each["what"], each["before"], each["after"]] for each in entries
    ]
    return _rows(["commit", "what cost", "before", "after"], rows, "None so far.")


def calls(entries: list[dict[str, Any]]) -> str:
    """Return the table of calls of Python functions by commit."""
    parts = ("array_daemon", "array_launcher", "single_daemon", "single_launcher")
    rows = [
        [each["commit"][:_SHOWN], each["what"], *(f"{each[part]:,g}" for part in parts)]
        for each in entries
    ]
    head = ["commit", "", "a task of an array: daemon", "launcher", "single: daemon", "launcher"]
    return _rows(head, rows, "None so far.")


def losses(entries: list[dict[str, Any]]) -> str:
    """Return the table of what came in and was paid by everybody, and what became of it."""
    rows = [
        [each["commit"], each["what"], each["before"], each["after"], each["since"]]
        for each in entries
    ]
    return _rows(["commit", "what came in", "before", "after", "since"], rows, "None so far.")


def rises(entries: list[dict[str, Any]]) -> str:
    """Return the table of stored counts that rose, and why."""
    rows = [
        [each["count"], each["python"], f"{each['before']:,g}", f"{each['after']:,g}", each["why"]]
        for each in entries
    ]
    return _rows(["count", "Python", "before", "after", "why"], rows, "None rose so far.")


def sources(results: Results) -> str:
    """Return the table of result files: which commit, what machine."""
    rows = []
    for name, result in results.items():
        machine = checked(result, name)["machine"]
        runs = result.get("settings", {}).get("runs", result.get("runs", ""))
        rows.append(
            [
                f"`{name}.py`",
                result["commit"][:_SHOWN],
                str(machine.get("cpus", "")),
                str(machine.get("kernel", "")),
                str(machine.get("python", "")),
                str(machine.get("load_before", "")),
                str(runs),
                result.get("recorded", ""),
            ]
        )
    head = ["program", "commit", "processors", "Linux", "Python", "load before", "runs", ""]
    return _rows(head, rows, "None.")


def _entries(path: Path, name: str) -> list[dict[str, Any]]:
    return list(tomllib.loads(path.read_text()).get(name, [])) if path.exists() else []


def page(folder: Path = RESULTS, rises_file: Path = RISES) -> str:
    """Return the whole page. Raises `PageProblem`."""
    results = read_results(folder)
    tables = {
        "missed": missed_goals(results, _entries(folder / "goals.toml", "goal")),
        "causes": causes(_entries(folder / "causes.toml", "cause")),
        "calls": calls(_entries(folder / "losses.toml", "calls")),
        "losses": losses(_entries(folder / "losses.toml", "loss")),
        "rises": rises(_entries(rises_file, "rise")),
        "sources": sources(results),
    }

    def put(found: re.Match[str]) -> str:
        kind, _, name = found[1].partition(" ")
        return tables[name] if kind == "table" else text_of(results, found[1])

    return _PLACE.sub(put, (folder / "page.md").read_text())


def _difference(now: str, wanted: str) -> Iterator[str]:
    for number, (old, new) in enumerate(
        zip(now.splitlines(), wanted.splitlines(), strict=False), 1
    ):
        if old != new:
            yield f"line {number}: {old!r} would be {new!r}"


def main() -> int:
    """Write the page, check it, or keep a result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--keep", metavar="NAME", help="keep what a benchmark has printed")
    given = parser.parse_args()
    try:
        if given.keep:
            output = sys.stdin.read()
            sys.stdout.write(output)
            keep(given.keep, output, RESULTS)
        wanted = page()
    except PageProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    if not given.check:
        PAGE.write_text(wanted)
        return 0
    now = PAGE.read_text()
    if now == wanted:
        return 0
    print(f"{PAGE.name} is not what python -m scripts.performance_page writes:", file=sys.stderr)
    print("\n".join(_difference(now, wanted)), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
