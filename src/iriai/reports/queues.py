"""The queues of a cluster: what they take, and what is in them."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from iriai.config.reader import Configuration
from iriai.config.sections import QueueSection
from iriai.jobs.queue_rules import usable_queues
from iriai.machine.core import Machine
from iriai.model.instant import Instant
from iriai.protocol.messages.effects import Part
from iriai.wire.machines import QueueRow, QueueTable


def known_queues(machine: Machine, configuration: Configuration, now: Instant) -> QueueTable:
    """Return the queues with what is in them as the broker here knows; without one, nothing."""
    rows = {number: _row(configuration, number) for number in range(configuration.queue_count)}
    if Part.BROKER in machine.parts:
        for entry in machine.broker.state.queues.entries.values():
            number, waited_s = entry.want.queue, now.steady_s - entry.precedence.queued_at_s
            row = rows.get(number) or QueueRow(number, "gone")
            rows[number] = replace(
                row,
                waiting=row.waiting + entry.count,
                jobs=row.jobs + 1,
                longest_wait_s=max(row.longest_wait_s, waited_s),
            )
        for number, count in machine.broker.state.usage.by_queue().items():
            rows[number] = replace(rows.get(number) or QueueRow(number, "gone"), running=count)
    return QueueTable(tuple(rows[number] for number in sorted(rows)))


def queues_for(
    table: QueueTable,
    configuration: Configuration,
    groups: Collection[str],
    *,
    is_operator: bool,
) -> QueueTable:
    """Return the table with the queues marked that a user of these Unix groups may use."""
    usable = usable_queues(configuration, groups, is_operator=is_operator)
    return replace(
        table, rows=tuple(replace(row, is_usable=row.number in usable) for row in table.rows)
    )


def _row(configuration: Configuration, number: int) -> QueueRow:
    queue = configuration.queue(number) or QueueSection()
    return QueueRow(
        number,
        queue.state,
        queue.group or "",
        queue.time_limit_s,
        queue.time_limit_max_s,
        cpu_limit_s=queue.cpu_limit_s,
        memory_percent=queue.memory_percent,
        disk_percent=queue.disk_percent,
        mode=queue.mode,
        residence_s=queue.residence_s,
        charge_factor=queue.charge_factor,
    )
