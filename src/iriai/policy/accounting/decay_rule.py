"""Which rule makes past use count less."""

from __future__ import annotations

from iriai.config.sections import OrderSection
from iriai.policy.accounting.decay import Decay


def decay_of(section: OrderSection) -> Decay:
    """The rule that the configuration states: a half-life, or a window as in paper 000."""
    if section.window_s is None:
        return Decay(section.half_life_s)
    from iriai.policy.accounting.sliding_window import WindowDecay

    return WindowDecay(section.half_life_s, section.window_s)
