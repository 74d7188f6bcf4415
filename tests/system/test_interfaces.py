"""The addresses that the kernel tells of this host."""

import json
import subprocess
import sys

import pytest

from iriai.system.interfaces import global_addresses

PRINT = "from iriai.system.interfaces import global_addresses as told; print(*told())"


@pytest.mark.long
def test_they_are_those_that_ip_lists():
    done = subprocess.run(["ip", "-j", "address"], check=True, capture_output=True, text=True)
    listed = {
        each["local"]
        for device in json.loads(done.stdout)
        for each in device["addr_info"]
        if each["scope"] == "global" and not {"tentative", "deprecated", "dadfailed"} & each.keys()
    }
    assert set(global_addresses()) == listed


@pytest.mark.root
@pytest.mark.long
def test_a_network_without_any_has_none_and_a_second_one_of_a_device_is_told():
    script = (
        f'"{sys.executable}" -c "{PRINT}"; ip link add d0 type veth peer name d1; '
        "ip link set d0 up; ip address add 10.9.0.1/24 dev d0; "
        "ip address add 10.9.0.2/24 dev d0; "
        f'"{sys.executable}" -c "{PRINT}"'
    )
    words = ["unshare", "--net", "sh", "-ec", script]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["", "10.9.0.1 10.9.0.2"]
