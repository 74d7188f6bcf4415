"""Kinds of values that the configuration file knows: what is read, what is refused, how shown."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Generic, NamedTuple, TypeVar

from iriai.model.ad import Value, is_value
from iriai.model.admission_rules import ALL
from iriai.model.ids import HOME_NAME
from iriai.model.problem import UsageProblem
from iriai.model.units import (
    DURATION_MAX_S,
    SIZE_MAX_BYTES,
    format_size,
    parse_duration,
    parse_size,
)

NAME_LENGTH_MAX = 64
"""Of users, groups and resources; Unix itself stops at 32, directories at about this."""
NONE = "none"
"""What the file says where a value is to be absent; TOML has no word for it."""


Value_co = TypeVar("Value_co", covariant=True)


class WrongValue(ValueError):
    """The value is not of its kind; the reader of the file adds where it stood."""


class Kind(NamedTuple, Generic[Value_co]):
    """One kind of value."""

    expected: str
    """What would be right, to follow `write`: `a number from 0 to 1`."""
    read: Callable[[object], Value_co]
    """From TOML; raises `WrongValue`."""
    show: Callable[[object], str]
    """For `config show`."""


def _show(value: object) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


def _show_size(value: object) -> str:
    return format_size(value) if isinstance(value, int) else _show(value)


NUMBER_MAX = 1e300
"""Beyond it sums are no numbers any more."""


def _number(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise WrongValue
    if not -NUMBER_MAX <= raw <= NUMBER_MAX:  # neither does what is no number lie in there
        raise WrongValue
    return float(raw)


def number(low: float, high: float = inf, *, above: bool = False) -> Kind[float]:
    """A number from `low` (with `above`: more than `low`) to `high`."""
    lower = f"more than {low:g}" if above else f"at least {low:g}"
    expected = f"a number {lower}" + (f" and at most {high:.15g}" if isfinite(high) else "")

    def read(raw: object) -> float:
        value = _number(raw)
        if value > high or value < low or (above and value == low):
            raise WrongValue
        return value

    return Kind(expected, read, _show)


def whole(low: int, high: int) -> Kind[int]:
    """A whole number from `low` to `high`."""

    def read(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int) or not low <= raw <= high:
            raise WrongValue
        return raw

    return Kind(f"a whole number from {low} to {high}", read, _show)


def _duration(raw: object) -> float:
    try:
        return parse_duration(raw) if isinstance(raw, str) else _number(raw)
    except UsageProblem:
        raise WrongValue from None


def duration(*, zero: bool = False, high_s: float = DURATION_MAX_S) -> Kind[float]:
    """Seconds as a number, or a duration as commands take it."""
    expected = f"seconds as a number or a duration such as '1h30m', {'from' if zero else 'above'} 0"

    def read(raw: object) -> float:
        value = _duration(raw)
        if not 0 <= value <= high_s or (value == 0 and not zero):
            raise WrongValue
        return value

    return Kind(f"{expected} and at most {high_s:.0f} s", read, _show)


def _read_size(raw: object) -> int:
    try:
        value = parse_size(raw) if isinstance(raw, str) else raw
    except UsageProblem:
        raise WrongValue from None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= SIZE_MAX_BYTES:
        raise WrongValue
    return value


SIZE = Kind("a size such as '16G', or bytes as a whole number, above 0", _read_size, _show_size)


def _read_flag(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise WrongValue
    return raw


def _read_policy_file(raw: object) -> str:
    if not isinstance(raw, str) or not raw.startswith("/"):
        raise WrongValue
    path, _, class_name = raw.rpartition(":")
    if not path or not class_name.isidentifier():
        raise WrongValue
    return raw


POLICY_FILE = Kind(
    "the path of a file and a class in it, such as '/etc/iriai/mine.py:Policy'",
    _read_policy_file,
    _show,
)


def _read_attribute(raw: object) -> Value:
    if not isinstance(raw, bool | int | float | str) or not is_value(raw):
        raise WrongValue
    return raw


ATTRIBUTE = Kind("true, false, a number or a text", _read_attribute, _show)
"""Of an ad."""


FLAG = Kind("true or false", _read_flag, _show)


def is_name(text: str) -> bool:
    """Whether `text` can name a user, a group or a resource."""
    return (
        0 < len(text) <= NAME_LENGTH_MAX
        and text.isprintable()
        and text == text.strip()
        and not any(letter in "/=,%" for letter in text)
    )


def _read_name(raw: object) -> str:
    if not isinstance(raw, str) or not is_name(raw):
        raise WrongValue
    return raw


NAME = Kind(f"a name of 1 to {NAME_LENGTH_MAX} letters, without / = , or %", _read_name, _show)


def _read_users(raw: object) -> tuple[str, ...]:
    """`"all"`, `"none"`, or a list of names."""
    if raw in (ALL, NONE):
        return (ALL,) if raw == ALL else ()
    if not isinstance(raw, list) or ALL in raw or NONE in raw:
        raise WrongValue
    return tuple(_read_name(each) for each in raw)


def _show_users(value: object) -> str:
    return ", ".join(value) or NONE if isinstance(value, tuple) else _show(value)


USERS = Kind(
    f"users in a list, as in ['ann', 'bob'], or '{ALL}', or '{NONE}'", _read_users, _show_users
)


def _read_home_name(raw: object) -> str:
    if not isinstance(raw, str) or not HOME_NAME.fullmatch(raw):
        raise WrongValue
    return raw


HOME = Kind(
    "a name of at most 31 small letters, digits and hyphens that begins with a letter",
    _read_home_name,
    _show,
)


ADDRESS_LENGTH_MAX = 255
"""What a domain name may have, and more than any port adds."""


def _read_address(raw: object) -> str:
    if not isinstance(raw, str) or len(raw) > ADDRESS_LENGTH_MAX:
        raise WrongValue
    if raw and (not raw.isprintable() or " " in raw):
        raise WrongValue
    port = raw.rpartition(":")[2] if ":" in raw and not raw.endswith("]") else ""
    if port and not (port.isdecimal() and 0 < int(port) < 1 << 16):
        raise WrongValue
    return raw


ADDRESS = Kind("an address such as 'ume.example.org:6174'", _read_address, _show)


PATH_LENGTH_MAX = 4095
"""What the kernel takes."""


def _read_path(raw: object) -> str:
    if not isinstance(raw, str) or not raw.startswith("/") or not raw.isprintable():
        raise WrongValue
    if len(raw.encode()) > PATH_LENGTH_MAX:
        raise WrongValue
    return raw.rstrip("/") or "/"


PATH = Kind("a path that begins with /", _read_path, _show)


GPUS_MAX = 1024


def _read_gpu_ids(raw: object) -> tuple[int, ...]:
    ids = tuple(whole(0, GPUS_MAX - 1).read(each) for each in _list(raw))
    if len(set(ids)) != len(ids):
        raise WrongValue
    return ids


def _read_gpu_devices(raw: object) -> tuple[str, ...]:
    texts = _list(raw)
    for text in texts:
        if not isinstance(text, str) or not text.split():
            raise WrongValue
        for path in text.split():
            _read_path(path)
    return tuple(map(str, texts))


def _list(raw: object) -> list[object]:
    if not isinstance(raw, list) or len(raw) > GPUS_MAX:
        raise WrongValue
    return raw


def _show_list(value: object) -> str:
    return ", ".join(map(str, value)) or NONE if isinstance(value, tuple) else _show(value)


GPU_IDS = Kind("different numbers of GPUs in a list, as in [0, 1]", _read_gpu_ids, _show_list)
GPU_DEVICES = Kind(
    "paths of device nodes in a list, one text for each GPU, as in ['/dev/accel0 /dev/accel1']",
    _read_gpu_devices,
    _show_list,
)


def choice(*words: str) -> Kind[str]:
    """One of a few words."""

    def read(raw: object) -> str:
        if not isinstance(raw, str) or raw not in words:
            raise WrongValue
        return raw

    return Kind(" or ".join(f"'{word}'" for word in words), read, _show)


def _read_program(raw: object) -> str:
    return "" if raw == NONE else _read_path(raw)


def _show_program(value: object) -> str:
    return _show(value or None)


EXPRESSION_LENGTH_MAX = 16_384
"""What an expression may have; `classad.expression` says the same in bytes."""


def _read_expression(raw: object) -> str:
    if not isinstance(raw, str) or len(raw) > EXPRESSION_LENGTH_MAX:
        raise WrongValue
    return "" if raw == NONE else raw.strip()


EXPRESSION = Kind(
    "an expression in quotes, such as 'LoadAvg < 0.3'", _read_expression, _show_program
)
"""A ClassAd expression; whether it can be understood is looked at elsewhere."""


PROGRAM = Kind(f"the path of a program, or '{NONE}'", _read_program, _show_program)
"""Empty: none."""


def or_none(kind: Kind[Value_co]) -> Kind[Value_co | None]:
    """`kind`, or the word none."""

    def read(raw: object) -> Value_co | None:
        return None if raw == NONE else kind.read(raw)

    return Kind(f"{kind.expected}, or '{NONE}'", read, kind.show)
