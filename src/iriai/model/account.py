"""Whom use is counted for."""

from __future__ import annotations

from typing import NamedTuple

from iriai.model.bounds import Name


class Account(NamedTuple):
    """A group and a user in it; use under one group does not count in another."""

    group: Name
    user: Name

    def __str__(self) -> str:
        return f"{self.group}/{self.user}"
