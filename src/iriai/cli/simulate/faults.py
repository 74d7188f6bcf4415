"""`iriai simulate --faults`: small worlds in which much breaks, one for each seed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from iriai.cli.framework.command import GlobalOptions
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.simulate.progress import bar

if TYPE_CHECKING:
    from iriai.sim.faults.search import Counterexample

EXIT_FOUND = 1
"""Exit code if a seed fails: an error of iriai."""


def find_faults(
    first_seed: int, seeds: int, options: GlobalOptions, *, through_wire: bool = False
) -> int:
    """Try the seeds; print each that fails with its story. Return the exit code: 1 if one does."""
    from iriai.sim.faults.search import run

    with bar(seeds, "seeds") as progress:
        failures = run(
            range(first_seed, first_seed + seeds),
            lambda seed, _failure: progress(seed - first_seed + 1, 0.0),
            through_wire=through_wire,
        )
    if options.as_json:
        print_document({"seeds": seeds, "failures": [_document(each) for each in failures]})
    else:
        for failure in failures:
            _print_story(failure)
        print(f"{seeds:,} seeds, {len(failures)} fail", file=sys.stderr)
    return EXIT_FOUND if failures else 0


def _document(failure: Counterexample) -> dict[str, object]:
    return {
        "seed": failure.seed,
        "message": failure.message,
        "happenings": [str(each) for each in failure.happenings],
        "story": list(failure.story),
    }


def _print_story(failure: Counterexample) -> None:
    for line in failure.story:
        print(line)
    print(f"seed {failure.seed} fails: {failure.message}")
    print("with no more than this:")
    for happening in failure.happenings:
        print(f"  {happening}")
    print(f"to repeat: iriai simulate --faults --seed {failure.seed} --seeds 1\n")
