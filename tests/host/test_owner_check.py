"""What looks like a person's machine."""

from __future__ import annotations

import pytest

from iriai.host.checks import of_disks, of_owner


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("sys/class/power_supply/BAT0/type", "Battery\n", ['set profile = "laptop" in [owner]']),
        ("sys/class/power_supply/AC/type", "Mains\n", []),
        ("run/systemd/sessions/2", "UID=1000\nTYPE=wayland\n", ['set profile = "desk" in [owner]']),
        ("run/systemd/sessions/2", "UID=1000\nTYPE=tty\n", []),
        ("run/systemd/sessions/2", "\udcff", []),
    ],
)
def test_a_profile_is_proposed_where_a_person_may_sit(tmp_path, path, content, expected):
    place = tmp_path / path
    place.parent.mkdir(parents=True)
    place.write_bytes(content.encode(errors="surrogateescape"))
    assert [finding.hint for finding in of_owner(str(tmp_path))] == expected


@pytest.mark.parametrize(
    ("disk", "content", "is_told"),
    [
        ("vda", "[none] mq-deadline kyber bfq\n", True),
        ("nvme0n1", "none\n", True),
        ("sda", "none mq-deadline [bfq]\n", False),
        ("sda", "[mq-deadline] none\n", False),
        ("loop0", "[none] mq-deadline\n", False),
        ("sda", "\udcff", False),
    ],
)
def test_disks_that_know_no_classes_are_told(tmp_path, disk, content, is_told):
    place = tmp_path / "sys/block" / disk / "queue/scheduler"
    place.parent.mkdir(parents=True)
    place.write_bytes(content.encode(errors="surrogateescape"))
    assert [disk in each.message for each in of_disks(str(tmp_path))] == [True] * is_told
