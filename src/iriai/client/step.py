"""A job step of this client: ordered, followed, and left once its end and its output are here."""

from __future__ import annotations

import select
import time
from contextlib import suppress

from iriai.client.connection import RETRY_S, RETURN_WAIT_S, WAIT_S, Connection, OutputReader
from iriai.client.rpc_channel import ConnectionLost
from iriai.client.tail import FetchedOutput, OnProblem, Sink
from iriai.model.problem import Refused, Unreachable
from iriai.model.submission import Interaction
from iriai.wire.requests import NOT_STARTED, Outcome
from iriai.wire.steps import (
    STILL_UNKNOWN,
    AwaitStep,
    EndStep,
    LeaveStep,
    NumberStep,
    OrderStep,
    ReadStep,
    StepNumbered,
    StepState,
)

POLL_S = 0.25
"""Between two looks at a connection that may have data of its own: of TLS."""


def numbered(connection: Connection, where: NumberStep) -> StepNumbered:
    """Return the name of a new step; ask again while the daemon begins. Raises a `Problem`."""
    give_up_s = time.monotonic() + RETURN_WAIT_S
    while True:
        try:
            return connection.channel.ask(where)
        except Unreachable as problem:
            is_passing = isinstance(problem, ConnectionLost) or problem.code == STILL_UNKNOWN
            if not is_passing or time.monotonic() > give_up_s:
                raise
            time.sleep(RETRY_S)
            with suppress(Unreachable):
                connection.reconnect()


class StepFollower:
    """Follows one step; call `poll` until it returns how the step ended.

    The step runs on while a daemon is away. Its order is repeated then, under its name, so it is
    not started again; what was read of its output is not read again.
    """

    def __init__(self, connection: Connection, order: OrderStep) -> None:
        self._connection = connection
        self._order = order
        self._outputs: list[FetchedOutput] = []
        self._asked: int | None = None
        """The number of the request for the end; None: there is none."""
        self._has_ended = False

    def begin(self) -> None:
        """Order the step; return when it runs, or is over. Raises a `Problem`."""
        try:
            self._connection.channel.ask(self._order)
        except Unreachable:
            self._again()

    def follow(self, output: Sink, error: Sink, on_problem: OnProblem) -> None:
        """Copy what it prints; a terminal has no `error`."""
        step = self._order.step
        is_terminal = self._order.interaction is Interaction.TERMINAL
        for kind, sink in [("out", output)] if is_terminal else [("out", output), ("err", error)]:
            reader = OutputReader(self._connection, ReadStep(step, kind, 0))
            self._outputs.append(FetchedOutput(reader, sink, on_problem))

    def poll(self) -> Outcome | None:
        """Copy what has come, or wait for more; return how it ended once all of it is here.

        Raises a `Problem` if the step was not started, or its daemon is away for too long.
        """
        try:
            return self._poll()
        except Refused as problem:
            if problem.code != NOT_STARTED:
                raise
            self._again()  # the home was restarted behind this connection
        except Unreachable:
            self._again()
        return None

    def end(self) -> None:
        """Have the step ended; `poll` returns how."""
        self._connection.channel.begin(EndStep(self._order.step))

    def leave(self) -> None:
        """Tell that nothing more of it will be asked for; nobody waits for the answer."""
        self._connection.channel.begin(LeaveStep(self._order.step))

    def _poll(self) -> Outcome | None:
        channel = self._connection.channel
        if self._asked is None:
            self._asked = channel.begin(AwaitStep(self._order.step, WAIT_S))
        has_moved = False
        for each in self._outputs:
            has_moved |= each.advance()
        state = channel.poll(self._asked, StepState, 0.0)
        if state is None:
            if not has_moved:
                poll = select.poll()
                poll.register(channel.fileno(), select.POLLIN)
                poll.poll(POLL_S * 1000)
            return None
        self._asked = None
        if state.outcome is not None:
            for each in self._outputs:
                each.finish()
        return state.outcome

    def _again(self) -> None:
        """Repeat the order over a new connection. Raises `Unreachable` after a while."""
        give_up_s = time.monotonic() + RETURN_WAIT_S
        self._asked = None
        while True:
            try:
                self._connection.reconnect()
                self._connection.channel.ask(self._order)
            except Unreachable:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(RETRY_S)
            else:
                return
