"""Charge factors of off-peak time: runs of equal factors, stored with each charge."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Amount, Many, Weight, decoded

Factors = Annotated[tuple[tuple[Weight, Amount], ...], Many]
"""(factor, seconds) of each interval of an attempt's time, in order. Empty: nothing was measured.
"""

_decoder = msgspec.json.Decoder(Factors)

STRETCH_MIN_S = 1e-6
"""Shorter intervals are rounding errors."""
RUNS_MAX = 64
"""With more changes between peak and off-peak, time is added to earlier intervals of the same
factor: a month of days and nights is kept in order, and a charge stays small."""


def with_stretch(factors: Factors, factor: float, seconds: float) -> Factors:
    """Return the factors with one more interval at the end."""
    if seconds < STRETCH_MIN_S:
        return factors
    if factors and factors[-1][0] == factor:
        return (*factors[:-1], (factor, factors[-1][1] + seconds))
    if len(factors) < RUNS_MAX:
        return (*factors, (factor, seconds))
    for position, (known, so_far_s) in enumerate(factors):
        if known == factor:
            longer = (factor, so_far_s + seconds)
            return (*factors[:position], longer, *factors[position + 1 :])
    return (*factors, (factor, seconds))


def total_s(factors: Factors) -> float:
    """Return the duration of all intervals together."""
    return sum(seconds for _, seconds in factors)


def encode_factors(factors: Factors) -> str | None:
    """Return factors as JSON text; None if all of the time was at peak."""
    if all(factor == 1.0 for factor, _ in factors):
        return None
    return msgspec.json.encode(factors).decode()


def decode_factors(text: str | None) -> Factors:
    """Return the factors in a text; empty if all of the time was at peak."""
    return () if text is None else decoded(_decoder, text.encode())
