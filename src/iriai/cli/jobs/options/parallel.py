"""Options of `run` and `submit` for jobs of several ranks, and for pipes."""

from __future__ import annotations

from iriai.cli.framework.command import OptionGroup, options_under
from iriai.client.job_builder import DraftFields
from iriai.model.problem import UsageProblem
from iriai.model.submission import Binding, Layout

parallel = options_under("Parallel jobs")
"""As `option`, for their heading of the help pages."""


class ParallelOptions(OptionGroup, frozen=True):
    """How many processes each task has, where they run, and what they are."""

    ranks: str | None = parallel(
        None,
        "-n",
        "--ranks",
        metavar="RANKS|MIN-MAX",
        help="Processes of each task, on one machine or several; all start, or none. Resources "
        "are per rank. Of a range as many as fit. \\[default: 1]",
    )
    nodes: int | None = parallel(
        None,
        "-N",
        "--nodes",
        metavar="N",
        help="On exactly N machines, ranks spread evenly. \\[default: as few as hold them]",
    )
    per_node: int | None = parallel(
        None, metavar="P", help="Exactly P ranks on each machine. \\[default: as many as fit]"
    )
    across_pools: bool | None = parallel(
        None,
        "--across-pools/--no-across-pools",
        help="Machines may be of several pools, so unlike one another; see 'iriai pools'. "
        "\\[default: as in \\[jobs] of iriai.toml]",
        show_default=False,
    )
    first: bool = parallel(
        False,
        "--first",
        help="The command runs once, on the first machine, and starts the rest itself, as mpirun "
        "does.",
    )
    keep_going: bool = parallel(
        False, "--keep-going", help="A rank that fails does not end the others."
    )
    bind: Binding | None = parallel(
        None,
        help="Processors of a rank: its own, or all of its machine's that the job has. "
        "\\[default: cores, where all processors of the machine are offered]",
    )
    pipe: list[str] | None = parallel(
        None,
        metavar="CMD",
        help="A command of a pipe, instead of CMD after --: each rank runs all of them, one's "
        "output into the next. Repeatable.",
    )

    def fields(self) -> DraftFields:
        """Return the fields of the draft; raises `UsageProblem` if one cannot be understood."""
        return DraftFields(
            ranks=self.ranks or "",
            nodes=self.nodes,
            per_node=self.per_node,
            across_pools=self.across_pools,
            layout=Layout.FIRST if self.first else Layout.RANKS,
            keep_going=self.keep_going,
            bind=self.bind,
            pipes=tuple(map(_stage, self.pipe or ())),
        )


def _stage(text: str) -> tuple[str, ...]:
    """Return the words of one command of a pipe, quoted as in a shell."""
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise UsageProblem(
            "no-command", f"--pipe {text}: a quotation is not closed", "close it"
        ) from None
