"""Whether what a submission holds can be started at all, looked at before root acts on it.

What cannot is refused with the limit that it is over: its attempt alone, and before any file is
made, any control group is taken and any program is run for it.
"""

from __future__ import annotations

import re

import msgspec

from iriai.launcher.contract.messages import Template
from iriai.model.job import JobSpec
from iriai.model.sizes import (
    ENVIRONMENT_BYTES_MAX,
    FILE_NAME_BYTES_MAX,
    command_problem,
    file_problem,
)

_encode = msgspec.msgpack.Encoder().encode
_ACCOUNT_NAME = re.compile(r"[^\s\x00-\x1f\x7f/]{1,256}")
"""Of a group: whatever a directory service may call one."""


def content_problem(template: Template) -> str:
    """Why no task of `template` can be started, for people; empty: nothing speaks against it."""
    spec, size_bytes = template.spec, len(template.environment)
    packed = _encode((spec.command, spec.working_directory, spec.output, spec.error))
    is_small = len(packed) <= FILE_NAME_BYTES_MAX and size_bytes <= ENVIRONMENT_BYTES_MAX
    if is_small and b"\0" not in packed and _ACCOUNT_NAME.fullmatch(spec.account.group):
        return ""  # nearly all: one look tells
    if size_bytes > ENVIRONMENT_BYTES_MAX:
        return (
            f"its environment has {size_bytes} bytes; the system starts no program with more than"
            f" ENVIRONMENT_BYTES_MAX = {ENVIRONMENT_BYTES_MAX}: submit with fewer variables"
        )
    problem = command_problem(spec.command)
    return str(problem) if problem else _file_problem(spec) or _name_problem(spec)


def _file_problem(spec: JobSpec) -> str:
    named = (
        ("working directory", spec.working_directory),
        ("output file", spec.output),
        ("error file", spec.error),
    )
    found = (file_problem(what, path) for what, path in named)
    return next((str(problem) for problem in found if problem), "")


def _name_problem(spec: JobSpec) -> str:
    if not _ACCOUNT_NAME.fullmatch(spec.account.group):
        return f"its account's group is {spec.account.group[:64]!r}, which is no name of a group"
    return ""
