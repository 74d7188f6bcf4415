"""Settings shared by all tests."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.assertions import drop_assertions
from tests.support.people import People, temporary_people
from tests.support.shared import has_logs
from tests.support.tiers import CHECKED, TESTS, Guard, tier

guard = Guard()

# No deadline: a busy machine is no failure. The same examples in every run of `make test`, so that
# a red run is red again, and a quarter of them in `make check`; HYPOTHESIS_PROFILE=search looks for
# new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=25)
settings.register_profile("search", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file that holds no test of `make check`, where only these are wanted."""
    if config.option.markexpr == "check" and collection_path.parent == TESTS:
        return collection_path.name not in CHECKED or None
    return None


@pytest.hookimpl(tryfirst=True)  # before -m is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what `make check` runs; leave out logs that are not here, and for others than root."""
    for item in items:
        if tier(item.path, frozenset(mark.name for mark in item.iter_markers())) == "check":
            item.add_marker("check")
    absent = set() if os.geteuid() == 0 else {"root"}
    if not has_logs():
        absent.add("logs")
    if not absent:
        return
    kept = [item for item in items if not absent & {mark.name for mark in item.iter_markers()}]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what lives as long as the run: a tenth of `make check`."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded: the seed that repeats a run, and what was counted or measured."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        if report.when == "call":
            for name, value in report.user_properties:
                terminalreporter.write_line(f"{report.nodeid}: {name} {value}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hold the tests of `make check` to what they may use."""
    guard.is_closed = item.get_closest_marker("check") is not None
    try:
        return (yield)
    finally:
        guard.is_closed = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Open the guard for the end of the last test: fixtures of the session end with it."""
    if nextitem is None:
        guard.is_closed = False


@pytest.fixture(scope="session", autouse=True)
def optimized() -> None:
    """Have every process that tests start drop its assertions, where IRIAI_TEST_OPTIMIZE=1 asks.

    Not this one, whose assertions are the tests: so it is set only once it runs.
    """
    drop_assertions()


@pytest.fixture(scope="session")
def people() -> Iterator[People]:
    """Users of this machine who exist for the tests alone."""
    with temporary_people() as made:
        yield made
