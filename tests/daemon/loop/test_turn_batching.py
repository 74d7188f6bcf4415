"""In a stream of news turns are some milliseconds apart; nothing else waits."""

from iriai.daemon.loop.engine import GATHER_S, STREAM_GAP_S, STREAM_TURNS, TurnBatching


def pace_after(turns: int, gap_s: float) -> tuple[TurnBatching, float]:
    pace = TurnBatching()
    now_s = 100.0
    for _ in range(turns):
        now_s += gap_s
        pace.turned(now_s)
    return pace, now_s


def test_the_first_news_after_a_silence_does_not_wait():
    pace, now_s = pace_after(1, 0.001)
    assert pace.rest_s(now_s) <= 0.0


def test_news_in_a_stream_waits_until_the_last_turn_is_long_enough_ago():
    pace, now_s = pace_after(STREAM_TURNS + 1, 0.001)
    assert pace.rest_s(now_s + 0.25 * GATHER_S) > 0.5 * GATHER_S
    assert pace.rest_s(now_s + 1.25 * GATHER_S) <= 0.0


def test_turns_that_are_apart_are_no_stream():
    pace, now_s = pace_after(10 * STREAM_TURNS, 1.1 * STREAM_GAP_S)
    assert pace.rest_s(now_s) <= 0.0


def test_a_pause_ends_a_stream():
    pace, now_s = pace_after(2 * STREAM_TURNS, 0.001)
    pace.turned(now_s + 2 * STREAM_GAP_S)
    assert pace.rest_s(now_s + 2 * STREAM_GAP_S) <= 0.0
