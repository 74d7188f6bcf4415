"""Conditions of `[owner]`: what may be said, and what is said where it may not."""

import pytest

from iriai.config.reader import BadConfiguration, parse_configuration
from iriai.config.sections import OwnerSection
from iriai.machine.owner_section import owner_policy
from iriai.model.owner import PROGRAMS_MAX

ALL = """
[owner]
profile = "desk"
programs = ["zoom", "Web Content", "gnome-calculator"]
foreign_cpus_max = 0.5
pressure_percent_max = 20
gpu_processes = true
on_battery = false
temperature_max_c = 85
"""


def owner(text: str) -> OwnerSection:
    return parse_configuration(text, "iriai.toml").owner


def test_all_conditions_may_be_named():
    section = owner(ALL)
    assert section.programs == ("zoom", "Web Content", "gnome-calculator")
    assert (section.foreign_cpus_max, section.pressure_percent_max) == (0.5, 20.0)
    assert (section.temperature_max_c, section.gpu_processes) == (85.0, True)
    assert owner('[owner]\nprograms = "none"').programs == ()


def test_conditions_alone_are_no_policy():
    assert owner_policy(owner("[owner]\non_battery = true\nprograms = ['zoom']")) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('programs = ["/usr/bin/zoom"]', "names of programs in a list"),
        ('programs = [""]', "names of programs in a list"),
        ('programs = ["a\\nb"]', "names of programs in a list"),
        (f'programs = ["{"ä" * 128}"]', "names of programs in a list"),
        ('programs = "zoom"', "names of programs in a list"),
        (f"programs = {['x'] * (PROGRAMS_MAX + 1)}", "names of programs in a list"),
        ("foreign_cpus_max = 0", "number of cpus above 0"),
        ("foreign_cpus_max = nan", "number of cpus above 0"),
        ("foreign_cpus_max = inf", "number of cpus above 0"),
        ('foreign_cpus_max = "much"', "number of cpus above 0"),
        ("pressure_percent_max = 0", "number of percent above 0"),
        ("pressure_percent_max = 101", "pressure_percent_max"),
        ("temperature_max_c = -3", "degrees Celsius"),
        ("temperature_max_c = 1000", "degrees Celsius"),
        ('on_battery = "sometimes"', "on_battery"),
        ("gpu_processes = 1", "gpu_processes"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(line: str, words: str):
    with pytest.raises(BadConfiguration) as caught:
        owner(f"[owner]\n{line}\n")
    key = line.split(" ", maxsplit=1)[0]
    told = f"{caught.value.message} {caught.value.hint}"
    assert f"owner.{key}" in told
    assert words in told
