"""Battery and temperature of machines that are recorded here, and of some that mislead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.launcher.owner.polled.battery import SUPPLIES_MAX, BatteryProbe
from iriai.launcher.owner.polled.reading import FILE_BYTES_MAX
from iriai.launcher.owner.polled.temperature import TemperatureProbe
from tests.launcher.owner.polled.trees import Tree, Watched

# --- battery -------------------------------------------------------------------------------------


@pytest.fixture
def laptop(tmp_path: Path) -> Tree:
    """As a laptop with a charger, a USB port and a mouse without a wire shows itself."""
    tree = Tree(tmp_path)
    for name, files in {
        "AC": {"type": "Mains\n", "online": "1\n"},
        "BAT0": {"type": "Battery\n", "present": "1\n", "status": "Full\n", "scope": "System\n"},
        "ucsi-source-psy-USBC000:001": {"type": "USB\n", "online": "0\n"},
        "hidpp_battery_0": {"type": "Battery\n", "scope": "Device\n", "status": "Discharging\n"},
    }.items():
        for file, text in files.items():
            tree.put(f"{name}/{file}", text)
    return tree


def test_a_laptop_is_on_its_battery_from_when_it_is_unplugged_until_it_is_plugged_in(laptop: Tree):
    watched = Watched(BatteryProbe(str(laptop)))
    assert not watched.holds
    assert watched.state.note == "plugged in"
    laptop.put("AC/online", "0")
    laptop.put("BAT0/status", "Discharging\n")
    assert watched.signs() == 1
    assert (watched.state.holds, watched.state.note) == (True, "BAT0: discharging")
    laptop.put("ucsi-source-psy-USBC000:001/online", "1")
    assert not watched.holds


@pytest.mark.parametrize("status", ["Not charging", "Full", "Unknown", "", "\xff\x00"])
def test_one_that_does_not_discharge_is_not_on_its_battery(laptop: Tree, status: str):
    laptop.put("AC/online", "0")
    laptop.put("BAT0/status", status)
    assert not Watched(BatteryProbe(str(laptop))).holds


def test_a_machine_without_a_battery_says_so(tmp_path: Path, laptop: Tree):
    watched = Watched(BatteryProbe(str(tmp_path / "nowhere")))
    watched.signs()
    assert (watched.state.works, "there is no battery" in watched.state.note) == (False, True)
    laptop.put("BAT0/present", "0")
    other = Watched(BatteryProbe(str(laptop)))
    assert not other.holds
    assert not other.state.works


def test_a_battery_that_is_taken_out_ends_the_condition(laptop: Tree):
    laptop.put("AC/online", "0")
    laptop.put("BAT0/status", "Discharging")
    watched = Watched(BatteryProbe(str(laptop)))
    assert watched.holds
    laptop.remove("BAT0")
    assert not watched.holds
    assert watched.signs(60.0) == 0


def test_more_supplies_than_any_machine_has_are_not_read(laptop: Tree):
    for number in range(SUPPLIES_MAX):
        laptop.put(f"A{number}/type", "Mains")
    assert not Watched(BatteryProbe(str(laptop))).holds


# --- temperature ---------------------------------------------------------------------------------


@pytest.fixture
def warm(tmp_path: Path) -> Tree:
    """A machine at 60 degrees, and a disk that is hotter, which is no matter of tasks."""
    tree = Tree(tmp_path)
    tree.put("thermal/thermal_zone0/type", "x86_pkg_temp\n")
    tree.put("thermal/thermal_zone0/temp", "60000\n")
    tree.put("thermal/cooling_device0/type", "Processor\n")
    tree.put("hwmon/hwmon0/name", "coretemp\n")
    tree.put("hwmon/hwmon0/temp1_input", "58000\n")
    tree.put("hwmon/hwmon0/temp1_crit", "100000\n")
    tree.put("hwmon/hwmon1/name", "nvme\n")
    tree.put("hwmon/hwmon1/temp1_input", "99000\n")
    return tree


def test_it_is_too_hot_until_it_is_five_degrees_below(warm: Tree):
    watched = Watched(TemperatureProbe(80.0, str(warm)))
    told = []
    for heat in (80_000, 80_500, 79_000, 75_500, 74_900, 79_900, 80_100):
        warm.put("hwmon/hwmon0/temp1_input", f"{heat}\n")
        told.append(watched.holds)
    assert told == [False, True, True, True, False, False, True]
    assert watched.state.note == "80 °C (coretemp), the bound is 80"


@pytest.mark.parametrize("text", ["", "nan", "-inf", "hot", "999999999999", "-274000", "1" * 9000])
def test_what_is_no_temperature_does_not_count(warm: Tree, text: str):
    watched = Watched(TemperatureProbe(80.0, str(warm)))
    warm.put("hwmon/hwmon0/temp1_input", text)
    assert not watched.holds
    assert watched.state.note.startswith("60 °C (x86_pkg_temp)")


def test_where_nothing_is_measured_it_says_so_and_looks_again(warm: Tree):
    watched = Watched(TemperatureProbe(50.0, str(warm)))
    assert watched.holds
    warm.remove("thermal")
    warm.remove("hwmon")
    assert not watched.holds
    assert not watched.state.works
    assert "nothing measures" in watched.state.note
    warm.put("thermal/thermal_zone7/temp", "70000")
    assert watched.holds
    assert "thermal_zone7" in watched.state.note


def test_huge_files_are_read_no_further_than_needed(warm: Tree):
    warm.put("thermal/thermal_zone0/temp", "90000" + " " * FILE_BYTES_MAX * 50 + "junk")
    assert Watched(TemperatureProbe(80.0, str(warm))).holds


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_no_content_of_these_files_is_an_error(tmp_path_factory, kind: bytes, content: bytes):
    tree = Tree(tmp_path_factory.mktemp("class"))
    tree.put("thermal/thermal_zone0/type", kind)
    tree.put("thermal/thermal_zone0/temp", content)
    tree.put("BAT0/type", kind)
    tree.put("BAT0/status", content)
    for probe in (TemperatureProbe(50.0, str(tree)), BatteryProbe(str(tree))):
        Watched(probe).signs()
