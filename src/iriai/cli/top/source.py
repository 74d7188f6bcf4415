"""Overviews of a daemon: several answers that belong together, also while it starts anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from iriai.cli.top.panels import Content, Panel
from iriai.client.client import Client
from iriai.model.problem import Problem, Unreachable
from iriai.wire.reports import Status, StatusReport


class Section(msgspec.Struct, frozen=True):
    """What one panel was told."""

    panel: Panel
    answer: Any
    """None where it was refused."""
    problem: Problem | None = None

    @property
    def content(self) -> Content | None:
        """What the panel shows of it; None where it was refused."""
        return None if self.problem else self.panel.content(self.answer)


class Overview(msgspec.Struct, frozen=True):
    """The state of things at one time."""

    taken_wall_s: float
    status: StatusReport
    sections: tuple[Section, ...]
    everyone: bool
    """Whether it has the jobs of all users."""
    problem: Unreachable | None = None
    """Why the daemon does not answer now; the rest is what it said last."""
    lost_wall_s: float | None = None
    """Since when it does not."""


class Source:
    """Takes overviews over one connection, which it makes again when it is lost.

    For one thread at a time.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        panels: Sequence[Panel],
        *,
        everyone: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.everyone = everyone
        """Whether to ask for the jobs of all users."""
        self._connect = connect
        self._panels = panels
        self._clock = clock
        self._client: Client | None = None
        self._last: Overview | None = None

    def overview(self) -> Overview:
        """Ask for everything; a daemon that is away is in the overview.

        Raises:
            Problem: there was no daemon from the beginning, or it refuses this user.
        """
        try:
            client = self.client()
            status = client.ask(Status())
            sections = tuple(self._section(client, panel) for panel in self._panels)
        except Problem as problem:
            self.close()
            if self._last is None:
                raise
            self._last = self._without_daemon(self._last, problem)
        else:
            self._last = Overview(self._clock(), status, sections, self.everyone)
        return self._last

    def _without_daemon(self, last: Overview, problem: Problem) -> Overview:
        since_wall_s = last.lost_wall_s if last.lost_wall_s is not None else self._clock()
        if not isinstance(problem, Unreachable):
            problem = Unreachable(problem.code, problem.message, problem.hint)
        return replace(last, problem=problem, lost_wall_s=since_wall_s)

    def client(self) -> Client:
        """Return the connection, made if there is none; raises as `Client.connect`."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def close(self) -> None:
        """Close the connection; the next overview makes another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _section(self, client: Client, panel: Panel) -> Section:
        try:
            return Section(panel, panel.ask(client, self.everyone))
        except Unreachable:
            raise
        except Problem as problem:
            return Section(panel, None, problem)
