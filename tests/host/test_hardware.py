"""What the machine is, and what of it is given away."""

import os

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.config.reader import Configuration, parse_configuration
from iriai.host.hardware import MachineFacts, capacity, home_name, measure
from iriai.model.ids import HOME_NAME
from iriai.model.resources import Resources

FACTS = MachineFacts(cpus=8, memory_bytes=16 << 30, gpus=1, host_name="ume", boot_id="b")


def test_this_machine_has_cpus_memory_and_a_boot():
    facts = measure()
    assert facts.cpus == len(os.sched_getaffinity(0))
    assert facts.memory_bytes > 1 << 20
    assert len(facts.boot_id) == 36


def test_what_is_not_configured_is_as_measured():
    assert capacity(FACTS, Configuration()) == Resources(8, 16 << 30, 1)


def test_what_is_configured_counts():
    text = '[machine]\ncpus = 200\nmemory = "1G"\ngpus = 0\nresources = { b = 2, a = 1 }'
    given = capacity(FACTS, parse_configuration(text, "iriai.toml"))
    assert given == Resources(200, 1 << 30, 0, named=(("a", 1), ("b", 2)))


def test_what_is_measured_by_name_is_given_away_unless_the_owner_says_otherwise():
    facts = replace(FACTS, named={"nvme": 5, "tape": 1})
    text = "[machine.resources]\nnvme = 3\ntape = 0\nlicence = 2"
    given = capacity(facts, parse_configuration(text, "iriai.toml"))
    assert given.named == (("licence", 2), ("nvme", 3))


def test_the_home_is_named_after_the_host():
    assert home_name("ume") == "ume"
    assert home_name("Ume.example.org") == "ume"
    assert home_name("7of9_lab") == "of9-lab"
    assert home_name("42") == "home"
    assert home_name("") == "home"
    assert home_name("a" * 60) == "a" * 31


@given(st.text())
def test_every_host_has_a_valid_home_name(host: str):
    assert HOME_NAME.fullmatch(home_name(host))
