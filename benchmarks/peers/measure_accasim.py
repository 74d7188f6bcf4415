"""AccaSim (Galleguillos, Kiziltan, Netti, Soto 2018): the same log through its EASY or its FIFO.

One machine with the log's processors, its FirstFit allocator, no output files. It reads the log
while it simulates, so reading is in its time.
"""

import collections
import collections.abc
import gzip
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from report import parse, rate

LOG = "KTH-SP2"
PROCESSORS = 100


def unpacked(jobs: int, folder: Path) -> Path:
    """The header and the first jobs of the log, as the plain file that AccaSim reads."""
    packed = Path(os.environ["IRIAI_TRACES"]) / f"{LOG}.swf.gz"
    plain = folder / f"{LOG}.swf"
    taken = 0
    with gzip.open(packed, "rt") as source, plain.open("w") as target:
        for line in source:
            taken += not line.startswith(";")
            if taken > jobs:
                break
            target.write(line)
    return plain


def system(folder: Path) -> Path:
    """Its description of the machine."""
    described = {
        "groups": {"all": {"core": PROCESSORS}},
        "resources": {"all": 1},
        "equivalence": {"processor": {"core": 1}},
        "start_time": 0,
    }
    path = folder / "system.json"
    path.write_text(json.dumps(described))
    return path


def main() -> None:
    """Simulate once, and say how many jobs that was a second."""
    arguments = parse("AccaSim", ways=("easy", "fcfs"), measures=("throughput",))
    # It was written for Pythons in which this name was there.
    collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]
    from accasim.base.allocator_class import FirstFit  # type: ignore[import-not-found]
    from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut  # type: ignore[import-not-found]
    from accasim.base.simulator_class import Simulator  # type: ignore[import-not-found]

    folder = Path(tempfile.mkdtemp())
    scheduler = EASYBackfilling if arguments.way == "easy" else FirstInFirstOut
    simulator = Simulator(
        str(unpacked(arguments.tasks, folder)),
        str(system(folder)),
        scheduler(FirstFit()),
        scheduling_output=False,
        statistics_output=False,
        show_statistics=False,
        RESULTS_FOLDER_PATH=str(folder / "results"),
    )
    figures = rate(arguments.tasks, simulator.start_simulation)
    if simulator.dispatched_jobs != arguments.tasks:
        raise RuntimeError(f"{simulator.dispatched_jobs} of {arguments.tasks} jobs were started")
    settings = {"scheduler": scheduler.__name__, "allocator": "FirstFit", "log": LOG}
    print(
        json.dumps(
            {
                "peer": f"accasim_{arguments.way}",
                "version": version("accasim"),
                "tasks": arguments.tasks,
                **figures,
                "settings": settings,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
