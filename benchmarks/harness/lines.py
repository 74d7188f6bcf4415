"""A connection to each of many daemons, made when it is needed, and again after its daemon died."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from harness.live_network import until
from iriai.client import Client
from iriai.model.problem import Problem

_Answer = TypeVar("_Answer")


class Lines:
    """By the machines' names; `states` are their state directories."""

    def __init__(self, states: Mapping[str, Path]) -> None:
        self._states = states
        self._clients: dict[str, Client] = {}

    def to(self, machine: str) -> Client:
        """The connection to a machine that is there."""
        if machine not in self._clients:
            self._clients[machine] = Client.connect(self._states[machine], follow=False)
        return self._clients[machine]

    def forget(self, machine: str) -> None:
        """Its daemon is dead: the next question needs a new connection."""
        client = self._clients.pop(machine, None)
        if client is not None:
            client.close()

    def ask(self, machine: str, question: Callable[[Client], _Answer]) -> _Answer | None:
        """The answer; None where the machine does not answer."""
        try:
            return question(self.to(machine))
        except Problem:
            self.forget(machine)
            return None

    def moments_s(
        self, machines: Iterable[str], knows: Callable[[Client], bool], began_s: float
    ) -> list[float]:
        """After how many seconds each of `machines` knew; they are asked until all do."""
        waiting, found = list(machines), []

        def ask() -> bool:
            for name in list(waiting):
                if self.ask(name, knows):
                    waiting.remove(name)
                    found.append(time.monotonic() - began_s)
            return not waiting

        until(ask, "all to know")
        return found

    def agreed_broker(self) -> str:
        """The one that all name; empty where they do not agree, or one does not answer."""
        named: set[str] = set()
        for machine in self._states:
            named.add(self.ask(machine, lambda client: client.status().broker) or "")
            if len(named) > 1:
                return ""
        return named.pop()
