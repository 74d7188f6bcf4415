"""A job draft with the working directory and environment of its submitter."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, TypedDict, Unpack

import msgspec

from iriai.model.batch_variables import BatchVariables
from iriai.model.problem import Refused, UsageProblem
from iriai.model.submission import Binding, Interaction, Layout, NotifyOn
from iriai.wire.requests import JobDraft

_KEPT = 8
"""Number of encoded environments that are cached; a program has one, or few."""

_encode = msgspec.msgpack.Encoder().encode


if TYPE_CHECKING:

    class DraftFields(TypedDict, total=False):
        """Optional fields of a draft; see `JobDraft`."""

        name: str
        script: bytes
        stdin: bytes
        cpus: int
        memory_bytes: int
        gpus: int
        named: tuple[tuple[str, int], ...]
        array: tuple[tuple[int, int, int], ...] | None
        time_limit_s: float | None
        cpu_limit_s: float | None
        process_limit: int | None
        output: str | None
        error: str | None
        max_restarts: int | None
        group: str | None
        account: str | None
        queue: int
        urgency: float
        held: bool
        wait_for_resources: bool
        interaction: Interaction
        throttle: int | None
        after: tuple[str, ...]
        exclusive: bool
        notify: str
        notify_on: NotifyOn
        lease_s: float | None
        requirements: str
        rank: str
        batch: BatchVariables
        ranks: str
        nodes: int | None
        per_node: int | None
        across_pools: bool | None
        layout: Layout
        keep_going: bool
        bind: Binding | None
        pipes: tuple[tuple[str, ...], ...]
        no_suspend: bool
        checkpoint_exit: int | None
        binary: tuple[str, str] | None
        reservation: str
        or_queue: bool
        evictable: bool | None

else:  # the same without the types, which every command would wait for
    DraftFields = dict


def draft(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | bytes | None = None,
    **fields: Unpack[DraftFields],
) -> JobDraft:
    """Return the draft of a job that runs `command` in `cwd` with `env`, by default this process's.

    `env` may be the result of `encode_environment`.

    Raises:
        Refused: the working directory no longer exists.
        UsageProblem: the command, a variable or the directory is not UTF-8.
    """
    for word in chain(command, *fields.get("pipes", ())):
        _check_text(word, "the command")
    return JobDraft(
        command=tuple(command),
        working_directory=_directory(cwd),
        environment=env if isinstance(env, bytes) else encode_environment(env),
        **fields,
    )


def encode_environment(environment: Mapping[str, str] | None = None) -> bytes:
    """Encode `environment` (by default this process's) for a draft.

    Equal environments return the same object, which many drafts can share.

    Raises:
        UsageProblem: a variable is not UTF-8.
    """
    return _encoded(tuple((os.environ if environment is None else environment).items()))


@lru_cache(_KEPT)
def _encoded(items: tuple[tuple[str, str], ...]) -> bytes:
    try:
        return _encode(dict(items))
    except UnicodeEncodeError:
        for name, value in items:
            _check_text(name + value, f"the environment variable {name!a}")
        raise


def _directory(cwd: str | os.PathLike[str] | None) -> str:
    try:
        # os.path: pathlib would drop the `..` after a symbolic link.
        path = os.path.join(os.getcwd(), cwd or "")
    except FileNotFoundError:
        raise Refused(
            "no-directory",
            "the working directory no longer exists: it was removed or replaced",
            "change to one that exists, or name one with --chdir",
        ) from None
    path = path if path == "/" else path.rstrip("/")
    _check_text(path, "the working directory")
    return path


def _check_text(text: str, what: str) -> None:
    """Raise `UsageProblem` if `text` contains bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageProblem(
            "not-utf-8", f"{what} is not UTF-8 text", "rename it, or leave it out"
        ) from None
