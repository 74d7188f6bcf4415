"""What a machine gives away of disk, and at most of its pool."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.config.reader import parse_configuration
from iriai.host import sensors
from iriai.host.hardware import MachineFacts, capacity
from iriai.host.machine_ad import own_ad, pool_of_machine
from iriai.machine.node_queues import node_queues
from iriai.model.ad import POOL, attributes_of, job_attributes, machine_ad
from iriai.model.ids import Account
from iriai.model.resources import Resources

GIB = 1 << 30
FACTS = MachineFacts(8, 16 * GIB, 0, "ume", "b", named={"disk": 1})


@pytest.fixture
def file_systems(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """Device and free bytes of directories."""
    found = {"/var/tmp": (1, 100 * GIB), "/scratch": (2, 64 * GIB), "/scratch/more": (2, 64 * GIB)}

    class Place:
        def __init__(self, path: str) -> None:
            self._path = path

        def stat(self) -> SimpleNamespace:
            if self._path not in found:
                raise FileNotFoundError(self._path)
            return SimpleNamespace(st_dev=found[self._path][0])

    def statvfs(path: str) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=found[path][1] // 4096, f_frsize=4096)

    monkeypatch.setattr(sensors, "Path", Place)
    monkeypatch.setattr(os, "statvfs", statvfs)
    return found


def offered(text: str = "") -> Resources:
    configuration = parse_configuration(text, "iriai.toml")
    ad = machine_ad({POOL: pool_of_machine(configuration.machine, FACTS)})
    return node_queues(configuration, ad).given(capacity(FACTS, configuration))


def test_what_is_free_at_start_is_given_away(file_systems):
    assert offered().disk_bytes == 96 * GIB  # 100, rounded down
    file_systems["/scratch"] = (2, 0)
    assert offered("[machine]\ntmp = '/scratch'").disk_bytes == 0


def test_each_file_system_counts_once(file_systems):
    places = "['/scratch', '/scratch/more', '/gone']"
    assert offered(f"[machine]\nwatchfs = {places}").disk_bytes == 64 * GIB
    assert offered("[machine]\nwatchfs = ['/scratch', '/var/tmp']").disk_bytes == 160 * GIB


@given(st.integers(0, 1 << 60))
def test_not_more_than_an_eighth_is_lost_by_rounding(free_bytes: int):
    free_bytes -= free_bytes % 4096
    with pytest.MonkeyPatch.context() as patch:
        found = SimpleNamespace(f_bavail=free_bytes // 4096, f_frsize=4096)
        patch.setattr(os, "statvfs", lambda _: found)
        given_away = sensors.disk_bytes(["/"])
    assert free_bytes * 7 // 8 <= given_away <= free_bytes


def test_an_owner_may_give_away_another_amount(file_systems):
    assert offered("[machine.resources]\ndisk = '5G'").disk_bytes == 5 * GIB
    assert offered("[machine.resources]\ndisk = 0").named == ()


def test_a_pool_bounds_what_its_machines_give_away(file_systems):
    pool = "[machine]\npool = 'blade'\n[pools.blade]\n"
    given_away = offered(f"{pool}memory = '4G'\ndisk = '10G'")
    assert (given_away.memory_bytes, given_away.disk_bytes) == (4 * GIB, 10 * GIB)
    assert offered(f"{pool}memory = '99G'\ndisk = '9T'") == offered()
    assert offered("[pools.other]\nmemory = '4G'") == offered()


def test_a_pool_that_nobody_named_is_found_by_its_name(file_systems):
    name = pool_of_machine(parse_configuration("", "iriai.toml").machine, FACTS)
    assert (
        attributes_of(
            own_ad("ume", parse_configuration("", "").machine, Resources(8), FACTS, "/x")
        )["Pool"]
        == name
    )
    assert offered(f"[pools.{name}]\nmemory = '4G'").memory_bytes == 4 * GIB


def test_disk_is_in_ads_in_units_of_htcondor():
    ad = own_ad(
        "ume",
        parse_configuration("", "").machine,
        Resources(8).with_limits(GIB, 4 * GIB),
        replace(FACTS, named={}),
        "/nowhere",
    )
    attributes = attributes_of(ad)
    assert (attributes["Disk"], attributes["TotalDisk"]) == (4 << 20, 4 << 20)
    assert "disk" not in attributes
    account, asked = Account("g", "u"), Resources(1).with_limits(0, 1025)
    assert job_attributes(account, asked, None, 1.0, exclusive=False)["RequestDisk"] == 2
