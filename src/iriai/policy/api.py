"""The interfaces for authors of orders and policies, in one place.

from iriai.policy.api import Contender, Groups, Order
"""

from __future__ import annotations

from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.policy.draw.order import (
    NO_GROUPS,
    Contender,
    Groups,
    GroupUsage,
    IncrementalDraw,
    Order,
    OrderSettings,
    chance_by_urgency,
    shares_wanted,
)
from iriai.policy.placement.job_decisions import (
    EndJob,
    EndTask,
    HeldJob,
    HoldJob,
    JobDecision,
    ModifyJob,
    ReleaseJob,
    RequeueTask,
    SuspendTask,
    UnsuspendTask,
)
from iriai.policy.placement.policy_api import (
    Claimed,
    ClosedMachine,
    ClusterSummary,
    Decision,
    PlacedTask,
    PlannedMachine,
    PlannedStart,
    Policy,
    QueueState,
    Start,
    View,
    WaitingJob,
    place_for,
    seats_now,
)
from iriai.policy.placement.seats import Seat

__all__ = [
    "NO_GROUPS",
    "Account",
    "Claimed",
    "ClosedMachine",
    "ClusterSummary",
    "Contender",
    "Decision",
    "EndJob",
    "EndTask",
    "GroupUsage",
    "Groups",
    "HeldJob",
    "HoldJob",
    "IncrementalDraw",
    "Instant",
    "JobDecision",
    "ModifyJob",
    "Order",
    "OrderSettings",
    "PlacedTask",
    "PlannedMachine",
    "PlannedStart",
    "Policy",
    "QueueState",
    "ReleaseJob",
    "RequeueTask",
    "Seat",
    "Start",
    "SuspendTask",
    "UnsuspendTask",
    "View",
    "WaitingJob",
    "chance_by_urgency",
    "place_for",
    "seats_now",
    "shares_wanted",
]
