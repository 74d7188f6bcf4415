"""Ctrl-C while a job is followed: the first asks, the second cancels, the third stops waiting."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from iriai.cli.framework.standard_streams import remark
from iriai.client.client import Client
from iriai.client.rpc_channel import ConnectionLost
from iriai.model.problem import NotFound, Refused


class Interruption:
    """Counts SIGINT within a `with` block; `act` does what is due."""

    def __init__(self) -> None:
        self._received = 0
        self._acted = 0
        self._before: object = None

    def __enter__(self) -> Interruption:
        self._before = signal.signal(signal.SIGINT, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    @property
    def is_pending(self) -> bool:
        """Whether `act` has work to do."""
        return self._received > self._acted

    def act(self, client: Client, job: str) -> None:
        """Ask, cancel, or stop waiting, once per interrupt since the last call.

        Raises:
            KeyboardInterrupt: at the third interrupt.
        """
        while self._acted < self._received:
            self._acted += 1
            if sys.stderr.isatty():
                print(file=sys.stderr)  # the terminal has just written ^C
            if self._acted == 1:
                remark(
                    f"press Ctrl-C again to cancel {job}; otherwise it goes on: follow it with "
                    f"iriai logs -f {job}"
                )
            elif self._acted == 2:
                _cancel(client, job)
            else:
                raise KeyboardInterrupt

    def _count(self, _signal: int, _frame: FrameType | None) -> None:
        self._received += 1


def _cancel(client: Client, job: str) -> None:
    remark(f"cancelling {job}; press Ctrl-C again to leave before it has ended")
    try:
        client.cancel([job])
    except (Refused, NotFound):
        return  # it has finished
    except ConnectionLost:
        remark(f"the daemon is offline: cancel the job later with iriai cancel {job}")
