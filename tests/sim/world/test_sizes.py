"""What the simulator counts for sizes and numbers that it cannot import is what they are."""

from __future__ import annotations

import pytest
from experiments.gossip_membership import SEEDS
from experiments.open_network import PING_BYTES, RECORD_BYTES

from iriai.identity.storage.cluster_files import SEEDS_MAX
from iriai.sim.world.keyed_signatures import CERTIFICATE_BYTES, SIGNATURE_BYTES
from iriai.system.frames import frame
from iriai.wire.links import Ping, Pong, link_frame
from tests.support.trusted import TrustedCluster

STEADY_S, WALL_S = 123_456.789, 1_800_000_000.123


def test_a_machine_keeps_as_many_names_as_on_its_disk():
    assert SEEDS == SEEDS_MAX


def test_signatures_and_certificates_are_as_long_as_those_of_a_cluster(tmp_path):
    identity, _ = TrustedCluster(tmp_path).machine("m1")
    assert len(identity.sign(b"content")) == SIGNATURE_BYTES
    assert len(identity.certificate.der) == pytest.approx(CERTIFICATE_BYTES, abs=20)


def test_a_ping_and_its_answer_are_two_records():
    said = link_frame(Ping(STEADY_S)) + link_frame(Pong(STEADY_S, WALL_S))
    assert len(said) + 2 * (RECORD_BYTES - len(frame(b""))) == PING_BYTES
