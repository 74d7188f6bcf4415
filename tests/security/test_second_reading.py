"""What a second reading found: T9f and T9l by other ways (docs/spec/010, section 6)."""

from __future__ import annotations

import os
import socket

import pytest

from iriai.wire.frames import frame
from tests.endtoend.installation import Installation
from tests.security.bad_client import bad_client
from tests.support.lingering import lingering
from tests.support.people import People

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
    with bad_client(undisturbed, people.eve) as eve:
        if is_read:
            eve.greet()
            socket.send_fds(eve.socket, [frame(b"no request")], [first, second])
        else:  # the daemon closes the connection for the first, with the second in its queue
            socket.send_fds(eve.socket, [b"\xff\xff\xff\xff"], [first])
            socket.send_fds(eve.socket, [b"more"], [second])
        os.close(first)
        os.close(second)
    with undisturbed.client(people.bob) as client:
        assert client.jobs() is not None
    first_end.close()
    second_end.close()
