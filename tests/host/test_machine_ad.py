"""What this machine says of itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.config.reader import BadConfiguration, parse_configuration
from iriai.host import machine_ad
from iriai.host.hardware import MachineFacts
from iriai.host.machine_ad import own_ad, pool_name, system_attributes
from iriai.model.ad import KIND, attributes_of
from iriai.model.resources import Resources

FACTS = MachineFacts(cpus=8, memory_bytes=16 << 30, gpus=0, host_name="ume", boot_id="b")


def said(text: str = "", facts: MachineFacts = FACTS) -> dict:
    machine = parse_configuration(f"[machine]\n{text}", "iriai.toml").machine
    return attributes_of(own_ad("ume", machine, Resources(8), facts, "/nowhere"))


def test_machines_of_one_kind_are_of_one_pool_whatever_they_offer():
    name = said()["Pool"]
    assert len(name) == 8
    assert said("cpus = 2\nspeed = 2.0")["Pool"] == name
    assert said(facts=replace(FACTS, memory_bytes=1 << 30))["Pool"] == name
    assert said(facts=replace(FACTS, cpus=4))["Pool"] != name


@pytest.mark.parametrize("attribute", KIND)
def test_machines_of_two_kinds_are_of_two_pools(attribute: str):
    kind = {"Arch": "X86_64", "OpSysAndVer": "Debian12", "CpuModel": "EPYC", "DetectedCpus": 8}
    other = kind | {attribute: "other"}
    assert pool_name(other) != pool_name(kind) == pool_name(dict(reversed(kind.items())))


def test_an_owner_names_the_pool_and_nobody_else():
    assert said('pool = "rack 1"')["Pool"] == "rack 1"
    for name in ("Pool", "POOL"):
        with pytest.raises(BadConfiguration, match="which \\[machine\\] pool sets"):
            said(f'attributes = {{ {name} = "mine" }}')


@pytest.mark.parametrize("name", ['""', '"a/b"', f'"{"x" * 65}"', '"\\u001b[31m"', "7"])
def test_what_is_no_name_is_refused(name: str):
    with pytest.raises(BadConfiguration, match="a name of 1 to 64 letters"):
        said(f"pool = {name}")


@pytest.mark.parametrize(
    ("cpu", "model"),
    [
        ("processor\t: 0\ncpu family\t: 25\nmodel name\t: AMD EPYC 7763\n", "AMD EPYC 7763"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "0xd0c"),
        ("", None),
    ],
)
def test_the_model_of_the_processor_is_the_kernels(cpu: str, model: str | None, monkeypatch):
    monkeypatch.setattr(machine_ad, "_cpu", lambda: cpu)
    assert system_attributes().get("CpuModel") == model
