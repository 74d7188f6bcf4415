"""Types of values in the configuration file that need more than a type and its bounds.

A type here is `Annotated[type, ValueFormat]`: the format defines how the value is written, and
further conditions. Bounds are msgspec's, `Meta(ge=1, le=9)`, in the same annotation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from iriai.model.ad import POOL, Value, is_attribute, is_value
from iriai.model.admission_rules import ALL, OTHERS
from iriai.model.bounds import QUEUE_MAX
from iriai.model.ids import HOME_NAME
from iriai.model.owner import (
    FOREIGN_CPUS_MAX,
    PROGRAM_LENGTH_MAX,
    PROGRAMS_MAX,
    TEMPERATURE_MAX_C,
)
from iriai.model.policy_terms import JobAction
from iriai.model.problem import UsageProblem
from iriai.model.units import DURATION_MAX_S, SIZE_MAX_BYTES, parse_duration, parse_size

NAME_LENGTH_MAX = 64
"""The longest name of a user, group or resource; Unix allows 32 characters, directories about
this many."""
ADDRESS_LENGTH_MAX = 255
"""The longest address: a domain name with a port."""
PATH_LENGTH_MAX = 4095
"""The longest path that the kernel accepts, in bytes."""
GPUS_MAX = 1024
EXPRESSION_LENGTH_MAX = 16_384
"""The longest expression; `classad.expression` has the same bound in bytes."""
DIGITS_MAX = 18
"""Of a whole number in a text; Python converts longer ones slowly."""
NONE = "none"
"""The word in the file for an absent value; TOML has none."""


QUEUES_MIN = 3
"""Queues where none is named: as many as paper 002 has by default."""


class ValueFormat(NamedTuple):
    """The written form of a type's values, and conditions beside the type."""

    expected: str
    """The description of a right value, to follow `write`: `a path that begins with /`."""
    parse: Callable[[str], object] = str
    """The function that reads a text before conversion to the type; raises a `UsageProblem`."""
    check: Callable[[Any], object] = lambda _: True
    """The check of the converted value."""


def is_name(text: str) -> bool:
    """Return whether `text` can name a user, a group or a resource."""
    return (
        0 < len(text) <= NAME_LENGTH_MAX
        and text.isprintable()
        and text == text.strip()
        and not any(letter in "/=,%" for letter in text)
    )


def _is_path(text: str) -> bool:
    return text.startswith("/") and text.isprintable() and len(text.encode()) <= PATH_LENGTH_MAX


def _is_address(text: str) -> bool:
    if len(text) > ADDRESS_LENGTH_MAX or not text.isprintable() or " " in text:
        return False
    port = text.rpartition(":")[2] if ":" in text and not text.endswith("]") else ""
    return not port or (port.isdecimal() and 0 < int(port) < 1 << 16)


def _is_policy_file(text: str) -> bool:
    path, colon, class_name = text.rpartition(":")
    if not colon:
        return is_name(text)
    return path.startswith("/") and class_name.isidentifier()


def _are_users(names: tuple[str, ...]) -> bool:
    return names == (ALL,) or all(is_name(name) and name not in (ALL, NONE) for name in names)


def _are_programs(names: tuple[str, ...]) -> bool:
    return all(
        0 < len(name.encode()) <= PROGRAM_LENGTH_MAX and name.isprintable() and "/" not in name
        for name in names
    )


def _are_devices(texts: tuple[str, ...]) -> bool:
    return all(text.split() and all(map(_is_path, text.split())) for text in texts)


def _are_paths(texts: tuple[str, ...]) -> bool:
    return all(map(_is_path, texts)) and len({*texts}) == len(texts)


def _trimmed(path: str) -> str:
    return path.rstrip("/") or path[:1]


def parse_number(text: str) -> float | str:
    """Return the number in a text that an operator typed; the text itself if it has none."""
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        return text


def parse_whole(text: str) -> int | str:
    """Return the same of a whole number."""
    return int(text) if text.isdecimal() and len(text) < DIGITS_MAX else text


def parse_delay(text: str) -> float:
    """Return the seconds of a delay that an operator typed; infinite: `never`."""
    if text.strip() == "never":
        return inf
    return 0.0 if text.strip() in ("0", "0s") else parse_duration(text)


MEASURED = "measured"
"""The mark of a type whose None means `measure it`; the file cannot give None."""
DURATION = ValueFormat("seconds as a number or a duration such as '1h30m',", parse_duration)
SIZE = ValueFormat(
    "a size such as '16G', or bytes as a whole number, above 0",
    parse_size,
    lambda size: 0 < size <= SIZE_MAX_BYTES,
)

Seconds = Annotated[float, DURATION, Meta(gt=0, le=DURATION_MAX_S)]
Delay = Annotated[
    float,
    ValueFormat(
        "'never', or a delay such as '0s' or '10min'", parse_delay, lambda delay: delay >= 0
    ),
]
"""Infinite: never."""


def parse_step(text: str) -> float | str:
    """Return the seconds of a delay, or the text of an expression."""
    try:
        return parse_delay(text)
    except UsageProblem:
        return text


Step = Annotated[
    float | str,
    ValueFormat(
        "'never', a delay such as '0s' or '10min', or a ClassAd expression",
        parse_step,
        lambda step: step >= 0 if isinstance(step, float) else len(step) <= EXPRESSION_LENGTH_MAX,
    ),
]
"""When one step of giving way is due."""
Bytes = Annotated[int, SIZE]
Name = Annotated[
    str,
    ValueFormat(f"a name of 1 to {NAME_LENGTH_MAX} letters, without / = , or %", check=is_name),
]
"""The name of a user, a group or a resource."""
QueueNumber = Annotated[
    str,
    ValueFormat(
        f"the number of a queue, from 0 to {QUEUE_MAX}",
        check=lambda text: text in map(str, range(QUEUE_MAX + 1)),
    ),
]
HomeName = Annotated[
    str,
    ValueFormat(
        "a name of at most 31 small letters, digits and hyphens that begins with a letter",
        check=HOME_NAME.fullmatch,
    ),
]
HomePattern = Annotated[
    str,
    ValueFormat(
        f"the name of a home, or '{OTHERS}' for all others",
        check=lambda name: name == OTHERS or HOME_NAME.fullmatch(name),
    ),
]
Users = Annotated[
    tuple[str, ...],
    ValueFormat(
        f"users in a list, as in ['ann', 'bob'], or '{ALL}', or '{NONE}'",
        {ALL: (ALL,), NONE: ()}.get,
        _are_users,
    ),
]
JobActions = Annotated[
    tuple[JobAction, ...],
    ValueFormat(
        f"decisions in a list, as in ['hold', 'release'], of {', '.join(JobAction)}; or '{ALL}', "
        f"or '{NONE}'",
        {ALL: tuple(JobAction), NONE: ()}.get,
        lambda actions: len(set(actions)) == len(actions),
    ),
]
ProgramNames = Annotated[
    tuple[str, ...],
    ValueFormat(
        f"at most {PROGRAMS_MAX} names of programs in a list, as in ['zoom', 'steam'], or '{NONE}'",
        {NONE: ()}.get,
        _are_programs,
    ),
    Meta(max_length=PROGRAMS_MAX),
]
ForeignCpus = Annotated[
    float, ValueFormat("a number of cpus", parse_number), Meta(gt=0, le=FOREIGN_CPUS_MAX)
]
PressurePercent = Annotated[
    float, ValueFormat("a number of percent", parse_number), Meta(gt=0, le=100)
]
Celsius = Annotated[
    float,
    ValueFormat("a number of degrees Celsius", parse_number),
    Meta(gt=0, le=TEMPERATURE_MAX_C),
]
Address = Annotated[
    str, ValueFormat("an address such as 'ume.example.org:6174'", check=_is_address)
]
Path = Annotated[str, ValueFormat("a path that begins with /", _trimmed, _is_path)]
PATHS_MAX = 64
"""Of one key: more file systems than any machine gives away."""
Paths = Annotated[
    tuple[str, ...],
    ValueFormat(
        f"at most {PATHS_MAX} different paths in a list, as in ['/var/tmp', '/scratch']",
        check=_are_paths,
    ),
    Meta(max_length=PATHS_MAX),
]
Program = Annotated[
    str,
    ValueFormat(
        f"the path of a program, or '{NONE}'",
        lambda text: _trimmed("" if text == NONE else text),
        lambda text: not text or _is_path(text),
    ),
]
"""Empty: none."""
PolicyFile = Annotated[
    str,
    ValueFormat(
        "the path of a file and a class in it, such as '/etc/iriai/mine.py:Policy', or the name "
        "of a policy that an installed package brings",
        check=_is_policy_file,
    ),
]
Expression = Annotated[
    str,
    ValueFormat(
        "an expression in quotes, such as 'LoadAvg < 0.3'",
        lambda text: "" if text == NONE else text.strip(),
    ),
    Meta(max_length=EXPRESSION_LENGTH_MAX),
]
"""A ClassAd expression, or `none`; `classad` parses it later."""
GpuIds = Annotated[
    tuple[Annotated[int, Meta(ge=0, lt=GPUS_MAX)], ...],
    ValueFormat(
        "different numbers of GPUs in a list, as in [0, 1]",
        check=lambda ids: len({*ids}) == len(ids),
    ),
    Meta(max_length=GPUS_MAX),
]
GpuDevices = Annotated[
    tuple[str, ...],
    ValueFormat(
        "paths of device nodes in a list, one text for each GPU, as in ['/dev/accel0 /dev/accel1']",
        check=_are_devices,
    ),
    Meta(max_length=GPUS_MAX),
]
AttributeName = Annotated[
    str,
    ValueFormat(
        "letters, digits and _, beginning with no digit, and not 'Pool', which [machine] pool sets",
        check=lambda name: is_attribute(name) and name.lower() != POOL.lower(),
    ),
]
AttributeValue = Annotated[Value, ValueFormat("true, false, a number or a text", check=is_value)]
"""The value of an attribute of an ad."""
