"""The thread that asks a daemon: overviews one after the other, and what a person wants between."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from iriai.cli.top.panels import PANELS
from iriai.cli.top.source import Source
from iriai.cli.top.watcher import Watcher
from tests.cli.top.daemon import FixedClient

INTERVAL_S = 0.001
WAIT_S = 30.0


class SlowSource(Source):
    """Takes longer for an overview than there is from one to the next."""

    def overview(self):
        time.sleep(10 * INTERVAL_S)
        return super().overview()


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    source = SlowSource(FixedClient, PANELS)
    watcher = Watcher(source, INTERVAL_S, lambda _: None, lambda _: None)
    yield watcher
    watcher.stop()


def test_what_a_person_wants_is_done_however_long_an_overview_takes(watcher: Watcher):
    watcher.start()
    done = threading.Event()
    assert watcher.ask(lambda _: "held", lambda *_: done.set(), changes=True)
    assert done.wait(WAIT_S)
