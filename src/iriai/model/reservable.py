"""What a machine's owner lets be reserved of it, and by whom (docs/spec/017, section 3)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.admission_rules import ALL
from iriai.model.bounds import Name
from iriai.model.ids import Account
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount

NAMES_MAX = 1_024
"""Of users and groups who may reserve a machine."""
NAMED_MAX = 8
"""Of them, in a reason."""

Part = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
ReservableBy = Annotated[tuple[Name, ...], msgspec.Meta(max_length=NAMES_MAX)]


class Reservable(msgspec.Struct, frozen=True, omit_defaults=True):
    """What may be reserved of one machine."""

    part: Part = 1.0
    """Of each of its resources, at any moment; 0: nothing."""
    by: ReservableBy = (ALL,)
    """Users, and groups of accounts, who may reserve it; `all`: everybody."""

    @property
    def is_limited(self) -> bool:
        """Whether it is less than everything, or not for everybody."""
        return self.part < 1.0 or self.by != (ALL,)

    def of(self, capacity: Resources) -> Resources:
        """Return what may be reserved of a machine that has so much."""
        if self.part >= 1.0:
            return capacity
        named = ((name, int(amount * self.part)) for name, amount in capacity.named)
        return Resources(
            int(capacity.cpus * self.part),
            int(capacity.memory_bytes * self.part),
            int(capacity.gpus * self.part),
            tuple(each for each in named if each[1]),
        )

    def refusal(
        self, user: str, account: Account, need: Resources, capacity: Resources, machine: str
    ) -> Reason | None:
        """Return why its owner lets nothing of that size be reserved by a user; None: it may be.

        What others have reserved of it does not count.
        """
        if self.part <= 0.0 or not self.by:
            words = "nothing of it may be reserved"
            return Reason(Rule.NOT_RESERVABLE, "a machine that may be reserved", words, machine)
        if self.by != (ALL,) and user not in self.by and account.group not in self.by:
            more = len(self.by) - NAMED_MAX
            named = ", ".join(self.by[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
            needed = f"a user or a group who may reserve it: {named}"
            return Reason(Rule.NOT_RESERVABLE, needed, f"{account} is none of them", machine)
        most = self.of(capacity)
        if need.fits_in(most):
            return None
        name, amount, had = need.lacking_in(most)[0]
        needed = describe_amount(name, amount)
        words = f"{describe_amount(name, had)} of it may be reserved at once"
        return Reason(Rule.NOT_RESERVABLE, needed, words, machine)


UNLIMITED = Reservable()
