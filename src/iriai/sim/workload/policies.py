"""The policies, by their names in the literature."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

POLICIES: Mapping[str, str] = MappingProxyType(
    {"fcfs": "none", "easy": "easy", "easy-sjbf": "easy-sjbf", "conservative": "conservative"}
)
"""Their names as `[order] backfill` of the configuration has them."""
