"""iriai shares the computers of a laboratory fairly, without a head node."""

import sys

__all__ = ["__version__"]

__version__ = "0.1.0"


def load_msgspec() -> None:
    """Load msgspec without `typing_extensions`, which brings `inspect` and its like.

    It is content with `typing`. Whoever loads the other later gets it as it is. Together they take
    nearly as long as Python's own start.
    """
    is_spared = "typing_extensions" not in sys.modules
    if is_spared:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # as if not installed
    try:
        import msgspec  # noqa: F401
    finally:
        if is_spared:
            del sys.modules["typing_extensions"]
