"""Reasons for refusing or waiting, as data: which rule, what was needed, what was there."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from iriai.model.bounds import Name, Words


class Rule(StrEnum):
    """The rules that can refuse a task, or make it wait."""

    NO_MACHINE_LARGE_ENOUGH = "no-machine-large-enough"
    NO_POOL = "no-pool"
    """No pool could ever hold a parallel task."""
    MACHINE_BUSY = "machine-busy"
    POOL_BUSY = "pool-busy"
    """No pool has room now for all ranks of a parallel task."""
    RUNNING_CAP = "running-cap"
    BURST = "burst"
    HELD = "held"
    DEPENDENCY = "dependency"
    ARRAY_THROTTLE = "array-throttle"
    RESERVED_HEAD_AHEAD = "reserved-head-ahead"
    RESERVED = "reserved"
    TURN_OF_OTHERS = "turn-of-others"
    AHEAD_IN_ACCOUNT = "ahead-in-account"
    MACHINE_UNKNOWN = "machine-unknown"
    NO_LAUNCHER = "no-launcher"
    BACKED_OFF = "backed-off"
    STALE_CAPABILITY = "stale-capability"
    HOLD_EXPIRED = "hold-expired"
    """A machine held a seat, and its home did not confirm it in time."""
    SEATS_NOT_HELD = "seats-not-held"
    """Not all machines of a parallel attempt held their seats."""
    USER_NOT_ALLOWED = "user-not-allowed"
    MACHINE_AWAY = "machine-away"
    ONE_PER_MACHINE = "one-per-machine"
    NOT_EMPTY = "not-empty"
    POLICY = "policy"
    STARTING = "starting"
    ENDING = "ending"
    LOAD_ABOVE_THRESHOLD = "load-above-threshold"
    OWNER_ACTIVE = "owner-active"
    """The owner of the machine uses it."""
    DRAINED = "drained"
    BROKER_NEW = "broker-new"
    REQUIREMENTS = "requirements"
    """The requirements of the job."""
    OWNER_POLICY = "owner-policy"
    """The machine's own requirements."""
    OTHER_CLUSTERS = "other-clusters"
    """The answers of other clusters, to which the job could be forwarded."""
    PASSED_ON = "passed-on"
    QUEUE_STOPPED = "queue-stopped"
    """The job's queue starts nothing, or is not there."""
    HIGHER_QUEUE = "higher-queue"
    """A task of a higher queue has the place."""
    POOL_FULL = "pool-full"
    """The machine's pool runs as many tasks as it may."""
    SUSPENDED = "suspended"
    """A task that has started does not run at present."""
    RESERVED_AHEAD = "reserved-ahead"
    """A reservation begins before the task would have ended."""
    NOT_RESERVABLE = "not-reservable"
    """The machine's owner does not let so much of it be reserved, or not by everybody."""
    RESERVATION_SHARE = "reservation-share"
    """The account has reserved as much of the cluster as is its share."""
    NOT_RESERVED = "not-reserved"
    """The reservation of the task is not open there, not there at all, or not for its user."""


class Reason(msgspec.Struct, frozen=True):
    """The answer of one rule. `needed` and `had` are for people, and never both empty."""

    rule: Rule
    needed: Words
    had: Words
    machine: Name = ""
    """The machine concerned; empty if it concerns all of them, or none."""

    def __post_init__(self) -> None:
        if not (self.needed or self.had):
            raise ValueError("an empty reason")  # which also makes a message malformed

    def __str__(self) -> str:
        where = f" on {self.machine}" if self.machine else ""
        return f"{self.rule}{where}: needs {self.needed}; {self.had}"
