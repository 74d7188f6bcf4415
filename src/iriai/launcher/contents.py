"""Whether what a submission holds can be started at all, looked at before root acts on it.

What cannot is refused with the limit that it is over: its attempt alone, and before any file is
made, any control group is taken and any program is run for it.
"""

from __future__ import annotations

import re

import msgspec

from iriai.launcher.messages import Template
from iriai.model.job import JobSpec
from iriai.model.sizes import (
    ARGUMENT_BYTES_MAX,
    COMMAND_BYTES_MAX,
    ENVIRONMENT_BYTES_MAX,
    FILE_NAME_BYTES_MAX,
    command_bytes,
    text_bytes,
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
    return _command_problem(spec.command) or _file_problem(spec) or _name_problem(spec)


def _command_problem(command: tuple[str, ...]) -> str:
    size_bytes = command_bytes(command)
    if size_bytes > COMMAND_BYTES_MAX:
        return (
            f"its command has {size_bytes} bytes; the system starts no program with more than"
            f" COMMAND_BYTES_MAX = {COMMAND_BYTES_MAX}: put them into a file"
        )
    longest = max(map(text_bytes, command), default=0)
    if longest > ARGUMENT_BYTES_MAX:
        return (
            f"an argument has {longest} bytes; the system starts no program with one of more than"
            f" ARGUMENT_BYTES_MAX = {ARGUMENT_BYTES_MAX}: put it into a file"
        )
    return "an argument has a NUL in it" if any("\0" in word for word in command) else ""


def _file_problem(spec: JobSpec) -> str:
    for what, path in (
        ("working directory", spec.working_directory),
        ("output file", spec.output),
        ("error file", spec.error),
    ):
        if "\0" in path:
            return f"the name of its {what} has a NUL in it"
        size_bytes = text_bytes(path)
        if size_bytes > FILE_NAME_BYTES_MAX:
            return (
                f"the name of its {what} has {size_bytes} bytes; the system takes at most"
                f" FILE_NAME_BYTES_MAX = {FILE_NAME_BYTES_MAX}"
            )
    return ""


def _name_problem(spec: JobSpec) -> str:
    if not _ACCOUNT_NAME.fullmatch(spec.account.group):
        return f"its account's group is {spec.account.group[:64]!r}, which is no name of a group"
    return ""
