"""A daemon that always says the same, and notes what it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from iriai.client.client import Client
from iriai.model.problem import NotFound, Problem
from iriai.reports.gangs import gang_matrix
from iriai.wire.changes import Cancel, Changed, Hold, Release
from iriai.wire.machines import AskNodes, AskQueues, NodeRow, NodeTable, QueueRow, QueueTable
from iriai.wire.reports import (
    GangMatrix,
    Gangs,
    GangTable,
    ShareRow,
    Shares,
    ShareTable,
    StandingTask,
    Status,
    StatusReport,
)
from iriai.wire.requests import (
    AskWhy,
    JobDetail,
    JobList,
    JobRow,
    Jobs,
    LogFiles,
    Logs,
    Reasons,
    Show,
    Why,
)

NOW_S = 1_000_040_000.0
"""The time, wherever these tests look at a clock."""
STATUS = StatusReport(
    *("ume", "0.1.0", "/state", "/state/daemon.sock", 1, 2, 3, "system", "lottery", 5000.0),
    *({"cpus": 4, "memory_bytes": 8 << 30}, {"cpus": 1, "memory_bytes": 1 << 30}, 1.0, 4, 12, 3),
    *(2.25, ()),
)
NODES = (
    NodeRow("momo", "up", "", 4, 4, 8 << 30, 8 << 30, 0, 0, 0.0, 0.0, 1.0, 0, "up"),
    NodeRow(
        *("sakura", "drained", "ann: new disk", 64, 0, 256 << 30, 12 << 30, 2, 1, 64.5, 2.0, 2.5),
        *(31, "up"),
    ),
    NodeRow("ume", "up", "", 4, 1, 8 << 30, 1 << 30, 0, 0, 2.25, 0.25, 1.0, 3, "here"),
)
QUEUES = (
    QueueRow(0, "active", waiting=10, jobs=2, longest_wait_s=75.0, is_usable=True),
    QueueRow(1, "active", "staff", 600.0, 3600.0, is_usable=True),
    QueueRow(2, "enabled", waiting=2, jobs=1, longest_wait_s=7200.0, cpu_limit_s=60.0),
)
SHARES = (
    ShareRow("lab", "ann", 1.0, 7200.0, 3, 10, 0.5, 0.75, 0.25),
    ShareRow("lab", "bob", 1.0, 2400.0, 0, 2, 0.5, 0.25, 0.75, 30.0),
)
JOBS = (
    JobRow("ume-3", "analyse", "lab", "ann", "running", 1, 0, 1, 0, 0, NOW_S - 3700, 2, 1.0),
    JobRow(
        *("ume-4", "a sweep with a name that is rather long", "lab", "ann", "running", 20, 10, 2),
        *(8, 1, NOW_S - 60, 1, 1.0),
    ),
    JobRow("ume-7", "nightly", "lab", "ann", "queued", 1, 1, 0, 0, 0, NOW_S - 5, 4, 2.0, queue=2),
    JobRow("ume-9", "\x1b[31m[b]red", "lab", "ann", "held", 1, 1, 0, 0, 0, NOW_S - 5, 4, 1.0),
)
DETAIL = JobDetail(
    *(JOBS[0], "lab/ann", ("./analyse", "[b]x"), False, "/home/ann", {"cpus": 2}, None, None),
    *("out", "", (), {}, (), ()),
)
WHY = Reasons("ume-7", "queued", (Why("machine-busy", "4 cpus", "1 cpu free", "ume"),))


def matrix() -> GangMatrix:
    """Two gangs on two machines take turns, on the third one runs all the time."""
    return gang_matrix(
        {"momo": [["ume-5.1"], ["ume-6.1"]], "sakura": [["ume-5.1"], ["ume-6.1"]]},
        {"ume": ["ume-3.1", "ume-4.9", "ume-4.10"]},
        rows_max=4,
        quantum_s=1.0,
    )


Answer = Callable[[Any], Any]
STANDING = (
    StandingTask("ume-4.2", 1, "higher-queue", ("momo", "ume")),
    StandingTask("ume-11.0", 2, "stopped-queue", ("sakura",)),
)


def answer(request: object) -> object:
    """The answer to every request that the view has."""
    match request:
        case Status():
            return STATUS
        case AskNodes():
            return NodeTable(NODES)
        case AskQueues():
            return QueueTable(QUEUES)
        case Gangs():
            return GangTable(matrix(), standing=STANDING)
        case Shares():
            return ShareTable("lottery", 604_800.0, SHARES)
        case Jobs():
            return JobList(tuple(msgspec.Raw(msgspec.msgpack.encode(row)) for row in JOBS))
        case Show():
            return DETAIL
        case AskWhy():
            return WHY
        case Logs():
            return LogFiles(())
        case Hold() | Release() | Cancel():
            return Changed(dict.fromkeys(request.ids, 1))
    raise NotFound("unknown", f"{request} is not asked here")


class FixedClient(Client):
    """A client without a connection."""

    def __init__(self, answering: Answer = answer) -> None:
        self.asked: list[object] = []
        self.closed = 0
        self.answering = answering

    def ask(self, request: Any) -> Any:
        self.asked.append(request)
        return self.answering(request)

    def close(self) -> None:
        self.closed += 1


def fixed_client() -> Client:
    return FixedClient()


def no_gangs() -> Client:
    """Of a cluster without them."""
    none = GangTable(gang_matrix({}, {}, rows_max=4, quantum_s=1.0))
    return FixedClient(lambda request: none if isinstance(request, Gangs) else answer(request))


def refusing(kind: type, problem: Problem) -> Answer:
    """Refuses requests of a kind, and answers others."""

    def ask(request: object) -> object:
        if isinstance(request, kind):
            raise problem
        return answer(request)

    return ask
