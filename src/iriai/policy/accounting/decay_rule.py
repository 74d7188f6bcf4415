"""The decay rule of a configuration."""

from __future__ import annotations

from iriai.config.sections import OrderSection
from iriai.policy.accounting.decay import Decay


def decay_of(section: OrderSection) -> Decay:
    """Return the configured rule: a half-life, or a window as in paper 000."""
    if section.window_s is None:
        return Decay(section.half_life_s)
    from iriai.policy.accounting.sliding_window import WindowDecay

    return WindowDecay(section.half_life_s, section.window_s)
