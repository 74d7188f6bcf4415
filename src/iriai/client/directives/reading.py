"""Chooses which directives of a script count, and reads them."""

from __future__ import annotations

from iriai.client.directives.block import Block, Dialect
from iriai.client.directives.option import Surroundings, Translation
from iriai.client.directives.pbs_translation import PbsTranslator
from iriai.client.directives.slurm_translation import SlurmTranslator
from iriai.model.batch_variables import VALUE_LENGTH_MAX


def translate(block: Block, around: Surroundings) -> Translation:
    """What the directives of sbatch or qsub in `block` ask for, as options of iriai.

    Where a script has both, it was written for two systems: those of sbatch count.

    Raises:
        Refused: something would run differently from what the script says.
        UsageProblem: directives contradict each other, or cannot be understood.
    """
    slurm, pbs = (
        [line for line in block.lines if line.dialect is dialect]
        for dialect in (Dialect.SLURM, Dialect.PBS)
    )
    if slurm:
        found = SlurmTranslator(slurm, around).translation()
    elif pbs:
        found = PbsTranslator(pbs, around).translation()
    else:
        return Translation(warnings=_unread(block))
    both: tuple[str, ...] = ()
    if slurm and pbs:
        both = (f"{pbs[0].place}: #PBS is ignored: the script has #SBATCH too",)
    warnings = *found.warnings, *_too_long(found), *both, *_unread(block)
    return found._replace(warnings=warnings)


def _too_long(found: Translation) -> tuple[str, ...]:
    """Warnings of variables that `Translation.batch` leaves out."""
    return tuple(
        f"{name} is not set: it would be longer than {VALUE_LENGTH_MAX} characters"
        for name, value in found.variables.items()
        if len(value) > VALUE_LENGTH_MAX
    )


def _unread(block: Block) -> tuple[str, ...]:
    """A warning where a directive comes too late; a script without others may write such a file."""
    used = {line.dialect for line in block.lines}
    return tuple(
        f"{line.place}: #{line.dialect} is ignored: it follows the first command"
        for line in block.unread
        if line.dialect in used
    )
