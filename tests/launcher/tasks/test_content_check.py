"""What a daemon orders to be started and no system starts is refused before root acts on it."""

import msgspec
import pytest

from iriai.launcher.contract.messages import Template
from iriai.launcher.tasks.admission import content_problem
from iriai.model.ids import Account
from iriai.model.sizes import ENVIRONMENT_BYTES_MAX
from tests.support.told import spec


def problem_of(environment: bytes = b"\x80", **changes: object) -> str:
    return content_problem(Template(msgspec.structs.replace(spec(), **changes), environment))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": ("x" * 131_071,)}, "ARGUMENT_BYTES_MAX"),
        ({"command": ("x" * 9_000,) * 60}, "COMMAND_BYTES_MAX"),
        ({"command": ("a\0b",)}, "an argument contains a NUL"),
        ({"working_directory": "/tmp/a\0b"}, "working directory contains a NUL"),
        ({"output": "o" * 4_096}, "FILE_NAME_BYTES_MAX"),
        ({"error": "\0"}, "error file contains a NUL"),
        ({"account": Account("a b", "ann")}, "is not the name of a group"),
        ({"environment": bytes(ENVIRONMENT_BYTES_MAX + 1)}, "ENVIRONMENT_BYTES_MAX"),
    ],
)
def test_what_cannot_be_started_is_said_with_its_limit(changes: dict[str, object], words: str):
    assert words in problem_of(**changes)


def test_an_ordinary_job_and_the_largest_can_be_started():
    assert problem_of() == ""
    assert problem_of(command=("x" * 131_070,), working_directory="/" + "d" * 4_094) == ""
