"""The experiments of paper 000 (Sumida, Kakizaki), once more, with the product's code.

`flooder`: a moderate user beside one who submits 2,000 jobs. `rights`: two users with rights 1 and
4. `groups`: three users of one group beside one of another. `offpeak`: cheap hours, and users who
react to them. `urgency`: `-p 5` never, now and then, and always. In virtual time, and means over
seeds; the same seeds give the same figures. `--only NAME` runs one, `--pictures DIRECTORY` draws
them. What comes of them is in docs/experiments/paper-000.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments import flooder, offpeak, shares, urgency
from experiments.panel import Panel, picture
from harness.options import read_options
from harness.report import finish, machine_facts, progress

EXPERIMENTS: Mapping[str, tuple[int, Callable[[Sequence[int]], tuple[Panel, ...]]]] = {
    "flooder": (10, flooder.run),
    "rights": (10, shares.RIGHTS.run),
    "groups": (10, shares.GROUPS.run),
    "offpeak": (3, offpeak.run),
    "urgency": (3, urgency.run),
}
"""By name, over how many seeds, and what runs it with them."""


def main() -> None:
    """Run those that are asked for; one JSON object last."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--only", choices=EXPERIMENTS)
    own.add_argument("--seed", type=int, default=1)
    asked, sys.argv[1:] = own.parse_known_args()
    options = read_options(__doc__ or "")
    figures = {}
    for name, (seeds, run) in EXPERIMENTS.items():
        if asked.only not in (None, name):
            continue
        progress(name)
        panels = run(range(asked.seed, asked.seed + (1 if options.quick else seeds)))
        figures[name] = {f"{panel.title}, {panel.unit}": panel.numbers for panel in panels}
        if options.pictures is not None:
            options.pictures.mkdir(parents=True, exist_ok=True)
            (options.pictures / f"paper-000-{name}.svg").write_bytes(picture(panels))
    settings = {"first_seed": asked.seed, "seeds": {n: s for n, (s, _) in EXPERIMENTS.items()}}
    finish({"figures": figures, "settings": settings, "machine": machine_facts(Path.cwd())})


if __name__ == "__main__":
    main()
