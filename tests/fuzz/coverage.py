"""How many branches of an entrance's modules its inputs reach."""

from __future__ import annotations

import importlib
import json
import pkgutil
import tempfile
from random import Random

import coverage

from tests.fuzz.entrance import Entrance


def measured(entrance: Entrance, rng: Random, inputs: int) -> float:
    """Percent of the branches that `inputs` fresh inputs reach; all, where there are none."""
    files = _files(entrance.modules)
    if not files:
        return 0.0
    counter = coverage.Coverage(data_file=None, branch=True, include=files, messages=False)
    counter.start()
    try:
        finds = list(entrance.finds)
        for _ in range(inputs):
            entrance.feed_one(entrance.make(rng))
        entrance.finds[:] = [each for each in entrance.finds if not each.what.startswith("it took")]
        entrance.finds.extend(each for each in finds if each not in entrance.finds)
    finally:
        counter.stop()
    with tempfile.NamedTemporaryFile() as file:
        counter.json_report(outfile=file.name, ignore_errors=True)
        totals = json.load(file)["totals"]
    if not totals["num_branches"]:
        return 100.0
    return 100.0 * totals["covered_branches"] / totals["num_branches"]


def _files(names: tuple[str, ...]) -> list[str]:
    """The source files of modules, and of all in a package."""
    found = []
    for name in names:
        module = importlib.import_module(name)
        found.append(module.__file__ or "")
        inside = pkgutil.iter_modules(getattr(module, "__path__", []))
        modules = (importlib.import_module(f"{name}.{each.name}") for each in inside)
        found += [each.__file__ or "" for each in modules]
    return found
