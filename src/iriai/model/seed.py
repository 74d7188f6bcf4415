"""A member of a cluster through which a machine finds the others."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Many, Name

SEEDS_MAX = 64
"""Members stored for the next start; from there membership finds all others."""


class Seed(msgspec.Struct, frozen=True):
    """A member and its last known addresses."""

    name: Name
    addresses: Annotated[tuple[Name, ...], Many] = ()
    is_outward_only: bool = False
