"""The rank of those that may be broker: the same everywhere, and moved by nobody else's coming."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from iriai.protocol.messages.candidates import BrokerCandidate, ranked, speakers

NAMES = st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), min_size=1, max_size=20, unique=True)


@given(NAMES, st.randoms())
def test_everybody_ranks_alike(names, rng):
    peers = [BrokerCandidate(name) for name in names]
    mixed = list(peers)
    rng.shuffle(mixed)
    assert ranked("lab", peers) == ranked("lab", mixed)


@given(NAMES, st.integers(0, 19))
def test_one_that_goes_moves_nobody_else(names, which):
    gone = names[which % len(names)]
    before = ranked("lab", map(BrokerCandidate, names))
    after = ranked("lab", (BrokerCandidate(name) for name in names if name != gone))
    assert after == tuple(name for name in before if name != gone)


@given(NAMES)
def test_who_is_outward_only_or_suspect_or_has_no_broker_is_not_among_them(names):
    peers = [
        BrokerCandidate(names[0], is_outward_only=True),
        *(BrokerCandidate(name) for name in names[1:]),
    ]
    assert names[0] not in ranked("lab", peers)
    assert ranked("lab", [BrokerCandidate(name, is_suspect=True) for name in names]) == ()
    assert ranked("lab", [BrokerCandidate(name, has_broker=False) for name in names]) == ()


@given(NAMES)
def test_a_cluster_of_outward_only_machines_is_spoken_to_all_the_same(names):
    outward = tuple(BrokerCandidate(name, is_outward_only=True) for name in names)
    assert speakers("lab", outward) == ranked("lab", map(BrokerCandidate, names))
    assert speakers("lab", (*outward, BrokerCandidate("DOOR"))) == ("DOOR",)


def test_a_machine_that_is_always_on_is_chosen_about_as_often_as_its_weight_says():
    steadiness = {"always": 1.0, "office": 0.6, "laptop": 0.2}
    peers = [BrokerCandidate(name, part) for name, part in steadiness.items()]
    first = Counter(ranked(f"cluster-{number}", peers)[0] for number in range(4000))
    assert abs(first["always"] / 4000 - 16 / 21) < 0.03
    assert abs(first["office"] / 4000 - 4 / 21) < 0.03
    assert first["laptop"] > 0
