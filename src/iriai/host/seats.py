"""Who sits at this machine, as logind and elogind have it."""

from __future__ import annotations

from pathlib import Path

SEATS = "/run/systemd/seats"
"""Where they keep a file of each seat: a screen with its keyboard."""
SEATS_MAX, SEAT_BYTES_MAX = 64, 1 << 14
DIGITS_MAX = 10
_KEY = "ACTIVE_UID="


def active_users(directory: str = SEATS) -> tuple[int, ...]:
    """Return the users whose sessions have the seats now; none where no login manager runs."""
    found: dict[int, None] = {}
    try:
        paths = sorted(Path(directory).iterdir())[:SEATS_MAX]
    except OSError:
        return ()
    for path in paths:
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                lines = file.read(SEAT_BYTES_MAX).splitlines()
        except OSError:  # it was taken away, or is not a file
            continue
        uids = [line.removeprefix(_KEY) for line in lines if line.startswith(_KEY)]
        found |= {int(uid): None for uid in uids if uid.isdecimal() and len(uid) <= DIGITS_MAX}
    return tuple(found)
