"""Settings shared by all tests."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.people import People, temporary_people
from tests.support.shared import has_logs

# No deadline: a busy machine is no failure. The same examples in every run of `make test`, so that
# a red run is red again; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("search", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only root can do, where this is not root, and logs that are not here."""
    absent = set() if os.geteuid() == 0 else {"root"}
    if not has_logs():
        absent.add("logs")
    if not absent:
        return
    kept = [item for item in items if not absent & {mark.name for mark in item.iter_markers()}]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded: the seed that repeats a run, and what was counted or measured."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        if report.when == "call":
            for name, value in report.user_properties:
                terminalreporter.write_line(f"{report.nodeid}: {name} {value}")


@pytest.fixture(scope="session")
def people() -> Iterator[People]:
    """Users of this machine who exist for the tests alone."""
    with temporary_people() as made:
        yield made
