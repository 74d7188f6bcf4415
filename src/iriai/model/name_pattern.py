"""Shell patterns of job names, bounded: `sweep*`, `run-[0-9]?`.

Python's own `fnmatch` searches the end of each `[` from its start, which takes seconds for
thousands of them, and caches every pattern that it ever got.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache

from iriai.model.problem import UsageProblem

PATTERN_LENGTH_MAX = 256
"""The longest pattern: as long as a name may be."""


@lru_cache(maxsize=16)
def name_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern that matches whole names; raise `UsageProblem` if it is too long."""
    if len(text) > PATTERN_LENGTH_MAX:
        raise UsageProblem(
            "pattern-too-long",
            f"the pattern '{text[:40]}...' has {len(text)} characters",
            f"use at most {PATTERN_LENGTH_MAX}, as many as a name may have",
        )
    return re.compile(translate(text))


def fits(name: str, text: str) -> bool:
    """Return whether the pattern `text` matches the whole of `name`."""
    return name_pattern(text).match(name) is not None
