"""What reaches a machine, and its parts."""

from __future__ import annotations

from iriai.protocol.messages.effects import (
    Delivered,
    LauncherEvent,
    LinkDown,
    LinkUp,
    MachineForgotten,
    OwnerEvent,
    PeersChanged,
    UsageForgotten,
    UsageLearned,
    Wake,
)
from iriai.protocol.messages.scheduling import Message

MachineEvent = (
    LauncherEvent
    | OwnerEvent
    | Wake
    | Delivered
    | LinkUp
    | LinkDown
    | PeersChanged
    | MachineForgotten
    | UsageLearned
    | UsageForgotten
)
PartEvent = Message | Wake | LinkUp | LinkDown
