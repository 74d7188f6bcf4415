"""Choice and translation of the directives of a script."""

from __future__ import annotations

from iriai.client.directives.block import Block, Dialect
from iriai.client.directives.option import Surroundings, Translation
from iriai.client.directives.pbs import PbsTranslator
from iriai.client.directives.slurm import SlurmTranslator
from iriai.model.batch_variables import VALUE_LENGTH_MAX


def translate(block: Block, around: Surroundings) -> Translation:
    """Translate the directives of sbatch or qsub in `block` into options of iriai.

    If a script has both, only those of sbatch are translated.

    Raises:
        Refused: the job would run differently from what the script requests.
        UsageProblem: directives contradict each other, or are malformed.
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
    """Return warnings about variables that `Translation.batch` omits."""
    return tuple(
        f"{name} is not set: it would be longer than {VALUE_LENGTH_MAX} characters"
        for name, value in found.variables.items()
        if len(value) > VALUE_LENGTH_MAX
    )


def _unread(block: Block) -> tuple[str, ...]:
    """Return warnings about directives after the first command, if the script has earlier ones."""
    used = {line.dialect for line in block.lines}
    return tuple(
        f"{line.place}: #{line.dialect} is ignored: it follows the first command"
        for line in block.unread
        if line.dialect in used
    )
