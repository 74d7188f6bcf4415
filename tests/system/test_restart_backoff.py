"""Pauses between starts."""

from iriai.system.restart_backoff import DELAY_MAX_S, KILLED_DELAY_MAX_S, RestartBackoff


def delays(lived_s: float, killed: bool, count: int) -> list[float]:
    back_off = RestartBackoff()
    return [back_off.delay_s(lived_s, killed=killed) for _ in range(count)]


def test_the_first_start_again_is_immediate_and_then_pauses_double():
    assert delays(0.0, killed=False, count=5) == [0.0, 0.1, 0.2, 0.4, 0.8]


def test_pauses_end_at_the_largest():
    assert delays(0.0, killed=False, count=50)[-1] == DELAY_MAX_S


def test_who_is_killed_soon_waits_a_second_at_most():
    assert max(delays(0.5, killed=True, count=50)) == KILLED_DELAY_MAX_S


def test_who_is_killed_after_a_while_never_waits():
    assert delays(2.0, killed=True, count=50) == [0.0] * 50


def test_who_fails_after_a_while_is_no_busy_loop():
    waits = delays(3.0, killed=False, count=50)
    assert waits[-1] == DELAY_MAX_S
    assert delays(DELAY_MAX_S, killed=False, count=50) == [0.0] * 50


def test_only_failures_are_counted():
    back_off = RestartBackoff()
    back_off.delay_s(0.0, killed=True)
    assert back_off.failures == 0
    back_off.delay_s(0.0, killed=False)
    assert back_off.failures == 1
    back_off.forget()
    assert back_off.failures == 0
