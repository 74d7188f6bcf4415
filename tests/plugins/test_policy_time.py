"""A policy that takes too long is ended, whatever it does meanwhile."""

from __future__ import annotations

import signal

import pytest

from iriai.plugins.policy_file import named_plan
from iriai.plugins.policy_time import TimedPolicy
from iriai.policy.policy_error import PolicyError


@pytest.fixture
def plan(tmp_path):
    """Plan with a method of these lines, within 50 ms."""

    def plan(*body):
        path = tmp_path / "slow.py"
        lines = ["import time", "class Slow:", "    def plan(self, view, now):"]
        path.write_text("\n".join([*lines, *(f"        {line}" for line in body)]) + "\n")
        policy = named_plan(f"{path}:Slow").policy._policy
        return list(TimedPolicy(policy, str(path), 0.05).plan(None, None))

    return plan


@pytest.mark.parametrize(
    "body",
    [
        ("while True: pass",),
        ("yield 1", "while True: pass"),
        ("time.sleep(60)",),
        ("yield 1", "time.sleep(60)"),
        ("try:", "    while True: pass", "except Exception: pass"),
        ("return iter(lambda: time.sleep(0.001), 1)",),
        ("while True: yield time.sleep(0.001)",),
        ("list(sorted([i for i in range(1000)], key=lambda n: time.sleep(0.01)))",),
    ],
    ids=lambda body: body[-1],
)
def test_its_time_is_bounded(plan, body):
    with pytest.raises(PolicyError, match=r"slow\.py.*: it took more than 0.05 s") as refused:
        plan(*body)
    assert "wake_s" in refused.value.one_line


def test_the_line_where_it_was_is_told(plan):
    with pytest.raises(PolicyError, match=r"slow\.py, line 5: it took"):
        plan("yield 1", "while True: pass")


def test_one_that_is_fast_enough_is_left_alone(plan):
    assert plan("yield 1", "yield 2") == [1, 2]
    assert plan("return [3]") == [3]


def test_others_get_their_timer_back(plan):
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    others = signal.setitimer(signal.ITIMER_REAL, 500.0, 0.0)
    try:
        plan("yield 1")
        left_s, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 400.0 < left_s <= 500.0
        assert not rang
    finally:
        signal.setitimer(signal.ITIMER_REAL, *others)
        signal.signal(signal.SIGALRM, before)


def test_it_wakes_when_the_policy_says(tmp_path):
    (tmp_path / "late.py").write_text(
        "class Late:\n    wake_s = 7.0\n    def plan(self, view, now): return []\n"
    )
    assert named_plan(f"{tmp_path}/late.py:Late").policy.wake_s == 7.0


def test_what_is_no_list_is_left_to_the_broker(tmp_path):
    (tmp_path / "odd.py").write_text("class Odd:\n    def plan(self, view, now): return 7\n")
    assert named_plan(f"{tmp_path}/odd.py:Odd").policy.plan(None, None) == 7
