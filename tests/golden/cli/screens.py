"""What `iriai top`, and the matrix of gangs, look like at 80 and 200 columns, as text."""

from __future__ import annotations

import asyncio
import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from types import SimpleNamespace
from unittest.mock import patch

from iriai.cli.framework import table
from iriai.cli.jobs import jobs
from iriai.cli.queues.gangs import table_lines
from iriai.cli.top import view
from iriai.cli.top.panels import PANELS
from iriai.cli.top.source import Source
from iriai.cli.top.top import print_overview
from iriai.client.client import Client
from iriai.reports.gangs import gang_matrix
from iriai.wire.reports import GangMatrix, GangTable
from tests.cli.top.daemon import NOW_S, STANDING, fixed_client, matrix, no_gangs
from tests.cli.top.driving import drive
from tests.golden.cli.golden_file import FOLDER

SCREENS = FOLDER / "screens"
SIZES = ((80, 24), (200, 40))


@contextmanager
def fixed_clock() -> Iterator[None]:
    """It is always the same time, in the same time zone."""
    clock = SimpleNamespace(
        time=lambda: NOW_S,
        localtime=lambda wall_s=NOW_S: time.gmtime(wall_s),
        strftime=time.strftime,
        monotonic=time.monotonic,
    )
    with ExitStack() as patched:
        for module in (jobs, table, view):
            patched.enter_context(patch.object(module, "time", clock))
        yield


def screens() -> dict[str, str]:
    """The text of each screen, by the name of its golden file."""
    with fixed_clock():
        texts = {"top-once": _once(), "top-keys-80": asyncio.run(_keys())}
        for width, height in SIZES:
            texts[f"top-{width}"] = asyncio.run(_top(width, height))
            texts[f"top-without-gangs-{width}"] = asyncio.run(_top(width, height, no_gangs))
    for name, each in MATRICES.items():
        for width, _ in SIZES:
            texts[f"gangs-{name}-{width}"] = "\n".join(table_lines(each, width)) + "\n"
    return texts


async def _top(width: int, height: int, client: Callable[[], Client] = fixed_client) -> str:
    async with drive(client, PANELS, (width, height)) as driven:
        return await driven.screen()


async def _keys() -> str:
    async with drive(fixed_client, PANELS, (80, 24)) as driven:
        await driven.press("?")
        return await driven.screen()


def _once() -> str:
    source = Source(fixed_client, PANELS, clock=lambda: NOW_S)
    out = io.StringIO()
    with redirect_stdout(out), patch.dict(os.environ, {"COLUMNS": "80"}):
        print_overview(source.overview())
    return out.getvalue()


def _large() -> GangMatrix:
    """64 machines: two gangs of 32 and one of 64, small ones, and a job without slices."""
    names = [f"node{number:02d}" for number in range(1, 65)]
    rows = {
        name: [
            ["ume-3.1" if place < 32 else "ume-4.1"],
            ["ume-5.1"],
            [f"ume-{6 + place // 16}.1"] if place % 16 < 12 else [],
        ]
        for place, name in enumerate(names)
    }
    return gang_matrix(
        rows, {"node07": ["momo-1.1"], "node64": ["ume-2.9"]}, rows_max=4, quantum_s=1.0
    )


def _ragged() -> GangMatrix:
    """No two of 64 machines run the same."""
    rows = {f"node{n}": [[f"ume-3.{n}"], [f"ume-4.{n}"] if n % 2 else []] for n in range(1, 65)}
    return gang_matrix(rows, {}, rows_max=4, quantum_s=0.5)


MATRICES = {
    "few": GangTable(matrix()),
    "standing": GangTable(matrix(), standing=STANDING),
    "64": GangTable(_large()),
    "64-ragged": GangTable(_ragged()),
    "none": GangTable(gang_matrix({}, {}, rows_max=4, quantum_s=1.0)),
}
