"""What of the driver decides: by what its functions name, and what these name in turn."""

import sys
import textwrap
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def deciding(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from harness.driver_lines import Source

    def names(**files):
        texts = {f"iriai.{name.replace('__', '.')}": textwrap.dedent(files[name]) for name in files}
        return {name.removeprefix("iriai.daemon.") for name, _, _ in Source(texts).deciding()}

    yield names
    for name in [each for each in sys.modules if each.split(".")[0] == "harness"]:
        del sys.modules[name]


def test_a_function_that_only_computes_decides(deciding):
    assert deciding(daemon__a="def f(x):\n    return x + 1\n") == {"a.f"}


def test_a_function_that_awaits_or_reads_a_clock_acts(deciding):
    source = """
        import os
        import time

        async def waits(x):
            return await x

        def reads():
            return time.monotonic()

        def joins(a):
            return os.path.join(a, "b")
    """
    assert deciding(daemon__a=source) == {"a.joins"}


def test_whoever_names_a_function_that_acts_acts(deciding):
    source = """
        from iriai.system.disk import Disk

        class Keeper:
            def __init__(self, disk: Disk):
                self._disk = disk

            def keep(self):
                self._disk.write()

            def count(self):
                return 1
    """
    disk = """
        import os

        class Disk:
            def write(self):
                os.write(1, b"")
    """
    assert deciding(daemon__a=source, system__disk=disk) == {"a.Keeper.count"}


def test_other_packages_are_no_driver(deciding):
    assert deciding(model__a="def f():\n    return 1\n") == set()
