"""Who sits at this machine, from trees of files like the login manager's."""

from __future__ import annotations

from pathlib import Path

from iriai.host.seats import SEATS_MAX, active_users


def test_the_user_whose_session_has_the_seat_is_active(tmp_path: Path):
    (tmp_path / "seat0").write_text("IS_SEAT0=1\nACTIVE=2\nACTIVE_UID=1000\nSESSIONS=2 c1\n")
    (tmp_path / "seat-side").write_text("ACTIVE=5\nACTIVE_UID=1001\n")
    (tmp_path / "seat-empty").write_text("CAN_GRAPHICAL=1\n")
    assert sorted(active_users(str(tmp_path))) == [1000, 1001]


def test_nobody_is_where_no_login_manager_runs(tmp_path: Path):
    assert active_users(str(tmp_path / "none")) == ()


def test_what_is_no_number_no_file_or_too_much_counts_as_nobody(tmp_path: Path):
    (tmp_path / "seat0").write_bytes(b"ACTIVE_UID=-1\nACTIVE_UID=\xff\nACTIVE_UID=" + b"9" * 5000)
    (tmp_path / "seat1").mkdir()
    (tmp_path / "seat2").symlink_to(tmp_path / "gone")
    (tmp_path / "seat3").write_text("x" * 20_000 + "\nACTIVE_UID=7\n")
    for number in range(SEATS_MAX):
        (tmp_path / f"a{number:03}").write_text("ACTIVE=1\n")
    assert active_users(str(tmp_path)) == ()
