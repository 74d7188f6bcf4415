"""So much at once, and then so much a second."""

from __future__ import annotations

from iriai.policy.service.token_bucket import Rate, TokenBucket, TokenBuckets

TEN = Rate(per_s=2.0, burst=10.0)


def test_a_burst_is_taken_at_once_and_then_so_much_a_second():
    bucket = TokenBucket(TEN, 100.0)
    assert [bucket.consume(100.0) for _ in range(11)] == [True] * 10 + [False]
    assert bucket.wait_s(100.0) == 0.5
    assert not bucket.consume(100.4)
    assert bucket.consume(100.5)


def test_what_is_not_there_is_left_for_who_wants_less():
    bucket = TokenBucket(TEN, 0.0)
    assert not bucket.consume(0.0, 11.0)
    assert bucket.consume(0.0, 10.0)


def test_what_is_spent_beyond_what_is_there_is_owed():
    bucket = TokenBucket(TEN, 0.0)
    bucket.spend(14.0)
    assert bucket.wait_s(0.0) == 2.5
    assert not bucket.consume(2.4)
    assert bucket.consume(2.5)


def test_it_holds_no_more_than_a_burst_however_long_nobody_asks():
    bucket = TokenBucket(TEN, 0.0)
    assert bucket.consume(1e9, 10.0)
    assert not bucket.consume(1e9)


def test_a_clock_that_stands_still_or_goes_back_gives_nothing():
    bucket = TokenBucket(TEN, 100.0)
    assert bucket.consume(100.0, 10.0)
    assert not bucket.consume(50.0)


def test_each_key_has_a_bucket_of_its_own_and_they_are_bounded():
    buckets: TokenBuckets[int] = TokenBuckets(TEN, keys_max=3)
    assert buckets.consume(0, 0.0, 10.0)
    assert not buckets.consume(0, 0.0)
    assert all(buckets.consume(key, 0.0, 10.0) for key in range(1, 100))
    assert len(buckets) == 3
