"""The environment of a job, from one's own and from `--env`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from iriai.model.problem import UsageProblem


def job_environment(settings: Iterable[str], *, inherit: bool) -> dict[str, str]:
    """This process's environment (or none, without `inherit`) with `settings` laid over it.

    Each setting is `NAME=VALUE`, or `NAME` for the value that the variable has here.

    Raises:
        UsageProblem: a setting is neither, or names a variable that is not set.
    """
    environment = dict(os.environ) if inherit else {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not name or "\0" in text:
            raise UsageProblem(
                "bad-variable", f"--env '{text}' names no variable", "write --env NAME=VALUE"
            )
        if not equals and name not in os.environ:
            raise UsageProblem(
                "bad-variable",
                f"--env {name}: there is no variable {name} here",
                f"write --env {name}=VALUE, or export it first",
            )
        environment[name] = value if equals else os.environ[name]
    return environment
