"""A private front end with back ends, all on this host, ended with the block."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from harness.descendants import none_left
from harness.private_iriai import PrivateIriai
from iriai.client import Client

LINK_S_MAX = 30.0
"""For all back ends to be linked: they dial as soon as they are up."""
_POLL_S = 0.01

_Result = TypeVar("_Result")


class PrivateCluster:
    """Brought up by `with`; each of `back_ends` back ends gives `cpus` away.

    `sections`: more of the configuration of all.
    """

    def __init__(self, back_ends: int, cpus: int, *, sections: str = "") -> None:
        up = ("--name", "front", "--parts", "home,broker")
        self._front = PrivateIriai(1, up_options=up, sections=sections)
        front = ("--parts", "node", "--home", str(self._front.state))
        self._backs = [
            PrivateIriai(cpus, up_options=("--name", f"b{number + 1}", *front), sections=sections)
            for number in range(back_ends)
        ]
        self.work = self._front.work
        self._end = ExitStack()

    def __enter__(self) -> PrivateCluster:
        with ExitStack() as stack:
            stack.enter_context(none_left())
            for member in (self._front, *self._backs):
                member.start()
                stack.callback(member.end)
            self._await_links()
            self._end = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def as_user(self, work: Callable[[Client], _Result]) -> _Result:
        """Call `work` with a connection to the front end, of the user that tasks run as."""
        return self._front.as_user(work)

    def _await_links(self) -> None:
        deadline = time.monotonic() + LINK_S_MAX
        with self._front.connect() as client:
            while sum(row.cpus > 0 for row in client.nodes()) < len(self._backs):
                if time.monotonic() > deadline:
                    raise RuntimeError("the back ends do not link")
                time.sleep(_POLL_S)
