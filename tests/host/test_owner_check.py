"""What looks like a person's machine."""

from __future__ import annotations

import pytest

from iriai.host.checks import of_owner


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
