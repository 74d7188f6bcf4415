from hypothesis import given
from hypothesis import strategies as st

from iriai.machine.outbox import Outbox


def test_what_waits_for_nothing_leaves_at_once():
    left: list[str] = []
    Outbox().send(lambda: left.append("answer"))
    assert left == ["answer"]


def test_an_answer_waits_for_the_write_before_it():
    outbox, left = Outbox(), []
    outbox.close_gate(1)
    outbox.send(lambda: left.append("id of the job"))
    assert left == []
    outbox.durable(1)
    assert left == ["id of the job"]


def test_nothing_overtakes_what_waits():
    outbox, left = Outbox(), []
    outbox.close_gate(1)
    outbox.send(lambda: left.append("first"))
    outbox.close_gate(2)
    outbox.send(lambda: left.append("second"))
    outbox.durable(1)
    assert left == ["first"]
    outbox.send(lambda: left.append("third"))
    outbox.durable(2)
    assert left == ["first", "second", "third"]
    assert outbox.is_empty


@given(st.lists(st.sampled_from(["write", "send", "sync"]), max_size=60))
def test_actions_leave_in_order_and_never_before_their_write(steps):
    outbox, left = Outbox(), []
    written = synced = sent = 0
    for step in steps:
        if step == "write":
            written += 1
            outbox.close_gate(written)
        elif step == "send":
            sent += 1
            outbox.send(lambda number=sent, need=written: left.append((number, need)))
        else:
            synced = written
            outbox.durable(synced)
        assert all(need <= synced for _, need in left)
    outbox.durable(written)
    assert [number for number, _ in left] == list(range(1, sent + 1))
