"""What an order evens among accounts (paper 003, section 3.1; docs/spec/003, section 1).

The paper's spaces know what they have done for each account so far, and what they are doing now; so
either can be evened, the total or the rate. An order gets one of both as the usage of a contender.
"""

from __future__ import annotations

from iriai.config.sections import Even

PRESENT_S = 3600.0
"""The rate counts as the charge of so many seconds, so that it is usage like any other. With the
usual floor of a minute, an account that runs nothing counts as a sixtieth of one cpu: it comes
before any that runs something, and the first of several of these is a matter of the draw."""


def evened_s(even: Even, used_s: float, rate: float) -> float:
    """Return what counts of an account in a draw, in charged seconds.

    `used_s` is its usage so far, `rate` what its tasks are charged in a second now.
    """
    return used_s if even == "total" else rate * PRESENT_S
