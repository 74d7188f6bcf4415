"""A script that is handed in, with what its directives asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iriai.model.problem import UsageProblem

if TYPE_CHECKING:  # loaded only for a script that has directives
    from iriai.client.directives.option import OptionValue
    from iriai.model.batch_variables import BatchVariables

SCRIPT = "iriai.script"
"""In the context's `meta`: the script whose directives were read."""
_ANY = re.compile(rb"^#(?:IRIAI|SBATCH|PBS)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script to be run."""

    path: str
    """As it was named; `-` is standard input."""
    name: str
    content: bytes
    batch: BatchVariables | None = None
    """What a script for another system finds of its submission."""
    settings: tuple[OptionValue, ...] = ()
    """The options that its directives are."""
    directives_are_read: bool = False
    mail_place: str = ""
    """Where it asks for mail in the words of another system."""

    @property
    def has_directives(self) -> bool:
        """Whether there may be some that were not read."""
        return not self.directives_are_read and _ANY.search(self.content) is not None

    @contextmanager
    def naming_lines(self) -> Iterator[None]:
        """A problem with an option that came from a directive names its line."""
        try:
            yield
        except UsageProblem as problem:
            for each in self.settings:
                if problem.message.startswith(f"{each.option}:"):
                    text = f"{each.place}: {problem.message}"
                    raise UsageProblem(problem.code, text, problem.hint) from None
            raise
