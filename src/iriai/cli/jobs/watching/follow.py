"""Follow the output of a job's tasks until the job has finished."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from iriai.cli.framework.standard_streams import remark
from iriai.client.client import Client
from iriai.client.connection import OnLost
from iriai.client.rpc_channel import ConnectionLost
from iriai.client.tail import PAUSE_MAX_S, FollowedFiles, Sink
from iriai.model.problem import NotFound
from iriai.wire.requests import LogFile, Outcome, Progress

LOOK_MIN_S = 0.01
"""Delay of the first poll for output: a task that is over by then needs only the last poll."""
LOOK_FOR_S = 1.0
"""After this long, only progress is a reason to poll: the job waits its turn."""
FILES_MAX = 64
"""Tasks of an array that are followed at once, each an open file; others follow when they end."""
RANKS_MAX = 400
"""The same of ranks of one task, each a request that waits for more."""

SinksFor = Callable[[LogFile], tuple[Sink, Sink]]
"""Returns where a task's output and its errors go; called before the first of it is copied."""
_Output = tuple[str, int, int]
"""Task, attempt and rank that write it."""


class JobFollower:
    """Follows one job (or task); call `step` until it returns outcomes."""

    def __init__(
        self,
        client: Client,
        name: str,
        sinks_for: SinksFor,
        on_lost: OnLost | None = None,
        *,
        rank: int | None = None,
    ) -> None:
        """With `rank` what this rank writes alone."""
        self.is_started = False
        """Whether a task was seen to have started."""
        self._client = client
        self._name = name
        self._sinks_for = sinks_for
        self._rank = rank
        self._files = FollowedFiles()
        self._followed: set[_Output] = set()
        """What is being followed."""
        self._over: set[_Output] = set()
        """What was copied to its end."""
        self._over_until = -1
        """All started tasks up to this index are over; the last poll restarts here."""
        self._progress: Progress | None = None
        self._refresh_period_s = LOOK_MIN_S
        self._began_s = time.monotonic()
        self._next_refresh_s = self._began_s + LOOK_MIN_S
        self._waiting = client.waiting([name], self._on_progress, on_lost)

    def step(self) -> tuple[Outcome, ...] | None:
        """Copy new output; return the outcomes once all is over and copied, else None.

        Takes at most a twentieth of a second.
        """
        outcomes = self._waiting.poll(min(self._files.pause_s, self._pause_until_refresh_s()))
        if outcomes is not None:
            self._finish()
            return outcomes
        if time.monotonic() >= self._next_refresh_s and not self._waiting.is_lost:
            self._refresh_again()
        self._files.advance()
        return None

    def _on_progress(self, progress: Progress) -> None:
        if progress != self._progress:
            self._progress = progress
            self._next_refresh_s = time.monotonic()

    def _pause_until_refresh_s(self) -> float:
        return min(PAUSE_MAX_S, max(0.0, self._next_refresh_s - time.monotonic()))

    def _refresh_again(self) -> None:
        now_s = time.monotonic()
        self._refresh_period_s = min(PAUSE_MAX_S, self._refresh_period_s * 2)
        is_soon = not self.is_started and now_s < self._began_s + LOOK_FOR_S
        self._next_refresh_s = now_s + self._refresh_period_s if is_soon else float("inf")
        try:
            self._refresh(self._over_until)
        except ConnectionLost:
            return  # the wait detects this too, and reconnects

    def _refresh(self, after_index: int = -1) -> None:
        """Follow the output of new attempts, and stop with those that are over."""
        is_over_so_far = True
        for file in self._client.logs(self._name, after_index):
            self.is_started = True
            is_over_so_far &= file.finished
            if is_over_so_far:
                self._over_until = index_of(file)
            key = (file.task, file.attempt, file.rank)
            if key in self._over or not (self._rank is None or file.has_rank(self._rank)):
                continue
            if key not in self._followed:
                most = FILES_MAX if file.ranks == 1 else RANKS_MAX
                if len(self._followed) >= most and not file.finished:
                    continue
                self._follow(key, file)
            if file.finished:
                self._files.release(file.output)
                self._files.release(file.error)
                self._followed.remove(key)
                self._over.add(key)

    def _follow(self, key: _Output, file: LogFile) -> None:
        self._followed.add(key)
        follow(self._client, self._files, file, self._sinks_for(file))

    def _finish(self) -> None:
        """Copy the rest; waits for an offline daemon, and keeps what was read."""
        while True:
            try:
                with suppress(NotFound):  # withdrawn before anything was started
                    self._refresh()
                self._files.finish()
            except ConnectionLost:
                self._client.wait([self._name])  # returns when the daemon is online
            else:
                return


def remark_offline() -> None:
    """Report that the daemon of a followed task is offline."""
    remark("the daemon is offline; waiting for it, the task goes on")


def follow(client: Client, files: FollowedFiles, file: LogFile, sinks: tuple[Sink, Sink]) -> None:
    """Copy the output and errors of a task to `sinks`, wherever it runs."""
    for path, kind, sink in zip((file.output, file.error), ("out", "err"), sinks, strict=True):
        if file.is_kept:
            files.fetch(path, client.output(file, kind), sink, remark)
        else:
            files.add(path, sink, file.user)


def index_of(file: LogFile) -> int:
    """Return the index of the task that wrote it."""
    return int(file.task.rpartition(".")[2])
