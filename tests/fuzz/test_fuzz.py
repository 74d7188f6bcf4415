"""A short run of what `make fuzz` does for long: hostile input at every entrance."""

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.wire.envelopes import Request
from tests.fuzz import live, messages, texts
from tests.fuzz.mutation import encoded, mutated_tree
from tests.fuzz.reserving import plausible
from tests.fuzz.values import value_of

INPUTS = 400
LIVE_INPUTS = 40

IN_PROCESS = [*messages.entrances(), *texts.entrances()]


@pytest.mark.parametrize("entrance", IN_PROCESS, ids=lambda each: each.name.replace(" ", "-"))
def test_hostile_input_is_refused_in_an_honest_way(entrance, record_property):
    seed = f"short-{entrance.name}"
    record_property("seed", seed)

    entrance.run(Random(seed), INPUTS)

    assert entrance.fed == INPUTS
    assert [find for find in entrance.finds if not find.what.startswith("it took")] == []


@given(rng=st.randoms(use_true_random=False))
def test_any_request_that_is_changed_anywhere_is_refused_as_malformed_or_read(rng):
    requests = next(each for each in IN_PROCESS if each.name == "requests")

    requests.feed(encoded(mutated_tree(value_of(Request, rng), rng)))


def test_honest_values_are_read():
    rng = Random(1)

    read = 0
    for _ in range(200):
        try:
            messages.decode_request(encoded(value_of(Request, rng)))
        except messages.msgspec.ValidationError:
            continue
        read += 1

    assert read > 100


def test_what_a_member_could_say_of_reservations_is_read_and_some_of_it_kept():
    rng, cores = Random(1), messages.Cores()
    kept = {}
    for _ in range(300):
        part, tag, fields = plausible(rng)
        cores.take(encoded([part, tag, encoded(fields)]))
        kept |= dict.fromkeys(each.home for each in cores.kept)

    assert list(kept) == ["ume", "take"]


@pytest.mark.root
@pytest.mark.timeout(900)
def test_a_real_daemon_outlives_hostile_input_at_each_of_its_entrances(record_property):
    seed = 1
    record_property("seed", seed)

    seen = live.run(LIVE_INPUTS, seed, time.monotonic() + 600, set(), settle_s=0.0)

    assert len(seen["rows"]) == len(live.ENTRANCES)
    assert all(row["inputs"] == LIVE_INPUTS for row in seen["rows"])
    assert (seen["ends"], seen["tracebacks"]) == (0, 0)
