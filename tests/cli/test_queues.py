"""`iriai queues`, and `--queue`: what is printed, and what is sent."""

from __future__ import annotations

from iriai.wire.machines import QueueRow, QueueTable
from tests.client.double import double

ROWS = (
    QueueRow(0, "active", "staff", None, 3600.0, running=2),
    QueueRow(1, "enabled", "", 600.0, None, 12, 3, 7200.0, 3600.0, is_usable=True),
    QueueRow(7, "gone", waiting=1, jobs=1, longest_wait_s=5.0),
)


def test_queues_are_listed_with_what_waits(state, shell):
    with double(state, lambda _: QueueTable(ROWS, "the broker is silent")):
        said = shell("queues")
        document = shell("queues", "--json").document
    assert said.code == 0
    assert said.out.splitlines() == [
        "Queue  State    Group  Yours    Time  At most  Cpu time  Jobs  Tasks  Running  Longest",
        "    0  active   staff  no               1h00m               0      0        2",
        "    1  enabled  all    yes    10m00s              1h00m     3     12        0    2h00m",
        "    7  gone     all    no                                   1      1        0     5.0s",
    ]
    assert "silent" in said.err
    assert [row["waiting"] for row in document["rows"]] == [0, 12, 1]


def test_parts_of_memory_and_disk_are_shown_where_there_are_some(state, shell):
    rows = (QueueRow(0, "active", memory_percent=12.5), QueueRow(1, "active", disk_percent=50.0))
    with double(state, lambda _: QueueTable(rows)):
        said = shell("queues")
    assert [line.split() for line in said.out.splitlines()] == [
        ["Queue", "State", "Group", "Yours", "Memory", "Disk", "Jobs", "Tasks", "Running"],
        ["0", "active", "all", "no", "12.5", "%", "0", "0", "0"],
        ["1", "active", "all", "no", "50", "%", "0", "0", "0"],
    ]


def test_what_queues_do_with_running_tasks_is_shown_where_it_is_not_the_usual(state, shell):
    rows = (
        QueueRow(0, "active", mode="gang", residence_s=600.0),
        QueueRow(1, "active", mode="exclusive", charge_factor=0.5),
        QueueRow(2, "active"),
    )
    with double(state, lambda _: QueueTable(rows)):
        said = shell("queues")
    assert said.out.splitlines() == [
        "Queue  State   Group  Yours  Mode       Residence  Charge  Jobs  Tasks  Running",
        "    0  active  all    no     gang          10m00s             0      0        0",
        "    1  active  all    no     exclusive                0.5     0      0        0",
        "    2  active  all    no                                      0      0        0",
    ]
