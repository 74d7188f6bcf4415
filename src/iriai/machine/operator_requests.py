"""What operators ask of a node: to be drained, or to start tasks again."""

from __future__ import annotations

from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.node.core import Node


def change(node: Node, reason: str | None, by: str, now: Instant) -> None:
    """Drain, or without a reason resume; raise `Refused` if the machine was not drained."""
    if reason is not None:
        node.drain(reason, by, now)
    elif not node.resume(by, now):
        other = node.unavailable()
        raise Refused(
            "not-drained",
            f"{node.settings.machine} is not drained",
            f"it takes nothing because of {other}" if other else "it takes tasks",
        )


def take_request(
    node: Node, reason: str | None, by: str, asked_wall_s: float, now: Instant
) -> None:
    """Drain, or without a reason resume, as was asked earlier; a later drain stays."""
    if node.drained is not None and node.drained.since_wall_s > asked_wall_s:
        return
    if reason is None:
        node.resume(by, now)
    else:
        node.drain(reason, by, now)
