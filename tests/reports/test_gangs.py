"""What takes turns, and what stands, as the broker tells it."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from iriai.config.sections import QueueSection
from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.model.resources import Resources
from iriai.model.turn import ROWS_MAX
from iriai.protocol.messages.scheduling import Running
from iriai.reports.gangs import gang_matrix, known_gangs
from iriai.wire.inquiries import decode_response, encode_response
from iriai.wire.reports import GangTable, StandingTask
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.support.told import HOME, attempt

QUEUES = {
    "0": QueueSection(),
    "1": QueueSection(mode="gang"),
    "2": QueueSection(mode="exclusive"),
}
WHOLE = Resources(4, 1 << 20)


def listed(lone: LoneBroker) -> GangTable:
    """What crosses a link as it arrives there."""
    machine = Machine(HOME, None, Home(HOME, 1, ()), lone.broker)
    configuration = lone.broker.state.settings.configuration
    table = decode_response(encode_response(known_gangs(machine, configuration)))
    assert isinstance(table, GangTable)
    return table


def running(number: int, queue: int, resources: Resources = WHOLE, **fields) -> Running:
    claim = as_running(want(number, resources=resources))
    return replace(claim, queue=queue, **fields)


def with_claims(*claims: Running) -> LoneBroker:
    lone = LoneBroker(queues=QUEUES)
    lone.tell(lone.idle(has_clock=True, began=claims))
    return lone


def task(number: int) -> str:
    return str(attempt(number).task)


def test_gangs_have_a_row_each_and_others_run_in_all():
    small = Resources(1, 1 << 20)
    lone = with_claims(
        running(1, 1, Resources(2, 1 << 20)),
        running(2, 1, Resources(2, 1 << 20), row=1),
        running(3, 2, small),
        running(4, 0, small),
    )
    table = listed(lone)
    [column] = table.matrix.machines
    assert (column.machine, column.always) == (HOME, (task(3),))
    assert column.rows == ((task(1),), (task(2),))
    assert (table.matrix.rows_max, table.standing) == (4, ())


def test_a_gang_runs_in_each_row_that_leaves_its_cpus_idle():
    lone = with_claims(
        running(1, 1), running(2, 1, Resources(1, 1), row=1), running(3, 1, Resources(2, 1), row=1)
    )
    [column] = listed(lone).matrix.machines
    assert column.rows == ((task(1),), (task(2), task(3)))


def test_what_stands_is_listed_with_its_queue_and_for_whom():
    lone = with_claims(running(1, 2))
    lone.tell(want(2, queue=0, resources=WHOLE))
    table = listed(lone)
    assert table.standing == (StandingTask(task(1), 2, "higher-queue", (HOME,)),)
    assert table.matrix.machines == ()


def test_a_match_is_left_out_until_it_is_granted():
    lone = LoneBroker(queues=QUEUES)
    wanted = want(1, queue=2)
    [match] = matches(lone.tell(lone.idle(), wanted))
    assert listed(lone).matrix.machines == ()
    lone.tell(lone.began(match, wanted))
    [column] = listed(lone).matrix.machines
    assert column.always == (task(1),)


def test_a_machine_that_says_more_than_it_has_gets_no_more_rows_than_there_may_be():
    lone = with_claims(*(running(n, 1, row=ROWS_MAX - 1) for n in range(1, 40)))
    table = listed(lone)
    [column] = table.matrix.machines
    assert len(column.rows) == table.matrix.rows_max
    assert len(table.standing) == 39 - table.matrix.rows_max


@pytest.mark.parametrize(
    "table",
    [
        GangTable(gang_matrix({"m": [["t"]] * (ROWS_MAX + 1)}, {}, rows_max=4, quantum_s=1.0)),
        GangTable(gang_matrix({"m": [["t" * 1000]]}, {}, rows_max=4, quantum_s=1.0)),
        GangTable(gang_matrix({"m" * 2000: [["t"]]}, {}, rows_max=4, quantum_s=1.0)),
        GangTable(gang_matrix({}, {}, rows_max=-1, quantum_s=1.0)),
        GangTable(gang_matrix({}, {}, rows_max=4, quantum_s=float("nan"))),
        GangTable(gang_matrix({}, {}, rows_max=4, quantum_s=1.0), "", (StandingTask("t", -1, ""),)),
    ],
    ids=["rows", "task", "machine", "rows-max", "quantum", "queue"],
)
def test_what_a_broker_that_lies_says_is_refused_where_it_arrives(table):
    with pytest.raises(msgspec.MsgspecError):
        decode_response(encode_response(table))
