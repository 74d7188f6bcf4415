"""Loads msgspec without `typing_extensions`, which brings `inspect` and its like."""

from __future__ import annotations

import sys


def load_msgspec() -> None:
    """Load msgspec, which is content with `typing`; who loads the other later gets it as it is.

    Together they take nearly as long as Python's own start.
    """
    is_spared = "typing_extensions" not in sys.modules
    if is_spared:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # as if not installed
    try:
        import msgspec  # noqa: F401
    finally:
        if is_spared:
            del sys.modules["typing_extensions"]
