"""Scripts of a few lines, and what their directives become."""

from iriai.client.directives.block import read_block
from iriai.client.directives.option import Surroundings, Translation
from iriai.client.directives.reading import translate

HOME = "/home/ann"


def around(**chosen: str) -> Surroundings:
    """Ann in /work; `chosen` stands on the command line."""
    environment = {"HOME": HOME, "SHELL": "/bin/bash", "PATH": "/bin", "FLAVOUR": "plum"}
    options = {f"--{name}": value for name, value in chosen.items()}
    return Surroundings(
        "/work", "ann", HOME, "ume", environment, options, lambda path: path == "logs"
    )


def read(*lines: str, **chosen: str) -> Translation:
    """What a script named `job` with these lines is."""
    text = "\n".join(("#!/bin/sh", *lines, "true", ""))
    return translate(read_block(text.encode(), "scripts/job"), around(**chosen))


def words(*lines: str, **chosen: str) -> list[str]:
    """The options of iriai, without the usual output files."""
    usual = ("--output=slurm-%n", "--output=/work/job.o", "--error=/work/job.e")
    rest = [each.word for each in read(*lines, **chosen).settings]
    return [each for each in rest if not each.startswith(usual)]
