"""What a second reading found: T9f and T9l by other ways (docs/spec/010, section 6)."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from iriai.system.closing import THREADS_MAX
from iriai.system.frames import frame
from tests.endtoend.installation import Installation
from tests.security.bad_client import bad_client
from tests.support.lingering import lingering, pass_lingering
from tests.support.people import People
from tests.support.waiting import until

pytestmark = pytest.mark.root

TRY_TO_WRITE = b"""#!/bin/sh
chmod u+w "$0" && echo changed
(echo more >> "$0") && echo written
[ -O "$0" ] && echo mine
exit 0
"""


def test_a_task_cannot_write_its_script(undisturbed: Installation):
    """T9l: it lies where launcher and daemon need room, and was the user's own file."""
    with undisturbed.client() as client:
        job = client.submit(
            undisturbed.draft(script=TRY_TO_WRITE, output="tried", error="/dev/null")
        ).id
        [outcome] = client.wait([job])
    assert outcome.cause == "completed"
    assert (undisturbed.work / "tried").read_text() == ""


@pytest.mark.parametrize("is_read", [True, False])
def test_a_descriptor_that_is_slow_to_close_stops_nobody(
    undisturbed: Installation, people: People, is_read: bool
):
    """T9f: the daemon waited for the other end of a connection that lingers."""
    first, first_end = lingering()
    second, second_end = lingering()
    with first_end, second_end:
        with bad_client(undisturbed, people.eve) as eve:
            if is_read:
                eve.greet()
            daemon = undisturbed.pid("daemon")
            os.kill(daemon, signal.SIGSTOP)  # our own copies must not be the last that are closed
            if is_read:
                socket.send_fds(eve.socket, [frame(b"no request")], [first, second])
            else:  # the daemon closes the connection for the first, with the second in its queue
                socket.send_fds(eve.socket, [b"\xff\xff\xff\xff"], [first])
                socket.send_fds(eve.socket, [b"more"], [second])
            os.close(first)
            os.close(second)
            os.kill(daemon, signal.SIGCONT)
        with undisturbed.client(people.bob) as client:
            assert client.jobs() is not None


def test_more_that_are_slow_to_close_than_threads_that_wait_do_not_stay_open(
    undisturbed: Installation, people: People
):
    """T9f: 64 of them had all further ones, of everybody, stay open in the daemon."""
    own = Path(f"/proc/{undisturbed.pid('daemon')}/fd")
    before = len(list(own.iterdir()))
    with ExitStack() as stack:
        for _ in range(THREADS_MAX // 4 + 2):
            with bad_client(undisturbed, people.eve) as eve:
                eve.greet()
                pass_lingering(eve.socket, 4, stack, undisturbed.pid("daemon"))
        with undisturbed.client(people.bob) as client:
            assert client.jobs() is not None
        until(lambda: len(list(own.iterdir())) < before + THREADS_MAX // 2, "their end")
