"""What a machine tells of where it is, and what those that join may add to it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from iriai.config.sections import ClusterSection
from iriai.daemon.net import own_addresses
from iriai.daemon.net.own_addresses import JOINED_AT_MAX, OwnAddresses
from iriai.identity.storage.cluster_files import ClusterFiles

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.2"
GATE = "gate.lab:7000"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The host: its addresses, and no name service."""
    host = SimpleNamespace(addresses=(HERE, ELSEWHERE))
    monkeypatch.setattr(own_addresses, "global_addresses", lambda: host.addresses)
    monkeypatch.setattr(own_addresses.socket, "getfqdn", lambda: "ume")
    return host


def machine(directory: Path, **section: object) -> OwnAddresses:
    """As after a start."""
    cluster = SimpleNamespace(files=ClusterFiles(directory))
    configuration = SimpleNamespace(cluster=ClusterSection(**section))  # type: ignore[arg-type]
    doors = () if section.get("outward_only") else ("a socket",)
    settings = SimpleNamespace(configuration=configuration, cluster=cluster, doors=doors)
    return OwnAddresses(settings)  # type: ignore[arg-type]


def test_the_address_of_a_join_is_the_first_from_then_on(host, tmp_path):
    ume = machine(tmp_path)
    assert ume.current() == (f"{HERE}:6174", f"{ELSEWHERE}:6174", "ume:6174")
    ume.joined_at(f"{ELSEWHERE}:6174")
    assert ume.current() == (f"{ELSEWHERE}:6174", f"{HERE}:6174", "ume:6174")
    assert machine(tmp_path).current() == ume.current()


def test_an_address_that_it_has_no_more_is_told_no_more(host, tmp_path):
    ume = machine(tmp_path)
    ume.joined_at(f"{ELSEWHERE}:6174")
    host.addresses = (HERE,)
    assert ume.current() == (f"{HERE}:6174", "ume:6174")


def test_the_address_of_a_router_that_forwards_to_it_is_told(host, tmp_path):
    ume = machine(tmp_path)
    ume.joined_at(GATE)
    host.addresses = ()
    assert ume.current() == (GATE, "ume:6174")


@pytest.mark.parametrize("address", ["", "a b:1", "ume:0", "x" * 300, "[::1", "ume:6174\n", "::"])
def test_what_is_no_address_changes_nothing(host, tmp_path, address):
    """Else one with a token could have its entry refused by all others."""
    ume = machine(tmp_path)
    before = ume.current()
    ume.joined_at(address)
    assert ume.current() == before


def test_few_are_kept_however_many_join(host, tmp_path):
    ume = machine(tmp_path)
    for port in range(7000, 7100):
        ume.joined_at(f"gate.lab:{port}")
    assert len(ume.current()) == JOINED_AT_MAX + 3
    assert ume.current()[0] == "gate.lab:7099"


def test_one_that_accepts_no_connections_tells_none(host, tmp_path):
    assert machine(tmp_path, outward_only=True).current() == ()
