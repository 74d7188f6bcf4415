"""Output for other homes: what a home that misuses its requests costs, and whom."""

from __future__ import annotations

import pytest

from iriai.model.ids import AttemptId
from iriai.node.output_source import ASKED_MAX, PATIENCE_S, REREAD, OutputSource
from iriai.protocol.messages.effects import Send
from iriai.protocol.messages.streams import CREDIT_BYTES, PIECE_BYTES, AskOutput, Output

OURS = AttemptId("ume", 1, 0, 1)
HOSTILE = AttemptId("oni", 1, 0, 1)


class Outputs:
    """What tasks have printed here, each the same, and all that is read and sent of it."""

    def __init__(self, size_bytes: int = 8 * CREDIT_BYTES) -> None:
        self.size_bytes = size_bytes
        self.running = {OURS, HOSTILE}
        self.read_bytes = 0
        self.source = OutputSource(
            self._read, lambda *_: self.size_bytes, self.running.__contains__
        )

    def _read(self, _attempt: AttemptId, _kind: str, offset: int, bytes_max: int) -> bytes:
        count = max(0, min(self.size_bytes - offset, bytes_max))
        self.read_bytes += count
        return bytes(count)

    def ask(self, attempt: AttemptId, now_s: float = 0.0, *, offset: int = 0) -> list[Send]:
        """What is sent at once to a home that begins to follow an output."""
        return self.source.ask(AskOutput(attempt, "out", offset, CREDIT_BYTES), now_s)

    def wake(self, until_s: float) -> list[tuple[float, Send]]:
        """What is sent by timers, with the moment of each."""
        sent: list[tuple[float, Send]] = []
        while (next_s := self.source.next_s()) is not None and next_s <= until_s:
            sent += [(next_s, send) for send in self.source.wake(next_s)]
        return sent


def content_of(send: Send) -> bytes:
    assert isinstance(send.message, Output)
    return send.message.content


@pytest.mark.parametrize("numbers", [1, 7])
@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize(
    "then", ["begins anew", "renews its credit", "renews more than its credit"]
)
def test_a_home_that_asks_for_the_same_again_and_again_costs_little(
    numbers: int, is_over: bool, then: str
):
    """Each small message made a machine read a MiB; what is over is not even remembered."""
    outputs = Outputs()
    hostile = [AttemptId("oni", number, 0, 1) for number in range(numbers)]
    outputs.running.update(() if is_over else hostile)
    seconds, per_s = 10, 1000
    for message in range(seconds * per_s):
        now_s, attempt = message / per_s, hostile[message % numbers]
        outputs.ask(attempt, now_s)
        if then != "begins anew":
            offset = CREDIT_BYTES if then == "renews its credit" else 1 << 40
            more = AskOutput(attempt, "out", offset, CREDIT_BYTES, is_first=False)
            assert len(outputs.source.ask(more, now_s)) <= CREDIT_BYTES // PIECE_BYTES
    most_bytes = REREAD.burst + seconds * REREAD.per_s + CREDIT_BYTES
    assert outputs.read_bytes <= most_bytes
    outputs.read_bytes = 0
    sent = outputs.ask(OURS, float(seconds))
    assert sum(len(content_of(each)) for each in sent) == CREDIT_BYTES


def test_a_home_that_followed_much_gets_the_rest_later_and_hears_that_it_will():
    outputs = Outputs()
    count = int((REREAD.burst + 20 * REREAD.per_s) / CREDIT_BYTES)
    attempts = [AttemptId("oni", number, 0, 1) for number in range(count)]
    assert count < ASKED_MAX
    outputs.running.update(attempts)
    got, heard = dict.fromkeys(attempts, 0), dict.fromkeys(attempts, 0.0)

    def note(now_s: float, send: Send) -> None:
        attempt = send.message.attempt
        got[attempt] += len(content_of(send))
        assert now_s - heard[attempt] <= PATIENCE_S
        heard[attempt] = now_s

    for attempt in attempts:
        for send in outputs.ask(attempt):
            note(0.0, send)
    assert 0 in got.values()
    for now_s, send in outputs.wake(30.0):
        note(now_s, send)
    assert set(got.values()) == {CREDIT_BYTES}


def test_what_is_printed_while_a_home_follows_is_never_held_back():
    outputs = Outputs(size_bytes=0)
    outputs.ask(OURS)
    total = 0
    while total < 2 * REREAD.burst:
        outputs.size_bytes += CREDIT_BYTES
        sent = outputs.source.grown(OURS, "out", 0.0)
        total += sum(len(content_of(each)) for each in sent)
        assert total == outputs.size_bytes
        outputs.source.ask(AskOutput(OURS, "out", total, CREDIT_BYTES, is_first=False), 0.0)


def test_a_home_that_follows_more_than_it_may_drops_its_own():
    outputs = Outputs(size_bytes=0)
    outputs.ask(OURS)
    for number in range(2 * ASKED_MAX):
        attempt = AttemptId("oni", number, 0, 1)
        outputs.running.add(attempt)
        outputs.ask(attempt)
    outputs.size_bytes = 10
    assert outputs.source.grown(OURS, "out", 1.0)
    followed = [
        n for n in range(2 * ASKED_MAX) if outputs.source.ended(AttemptId("oni", n, 0, 1), 1.0)
    ]
    assert followed == list(range(ASKED_MAX, 2 * ASKED_MAX))


def test_of_homes_that_have_all_nothing_is_kept():
    outputs = Outputs(size_bytes=10)
    outputs.running.clear()
    [sent] = outputs.ask(OURS)
    assert sent.message == Output(OURS, "out", 0, bytes(10), is_complete=True)
    assert outputs.source.next_s() is None
    assert outputs.source._asked == {}
