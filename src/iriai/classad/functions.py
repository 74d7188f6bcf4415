"""The functions that an expression may call.

Those are allowed whose answer depends on their arguments alone, and which end soon whatever they
are given. What reads the clock, the dice, the environment or the machine is refused, and so is what
evaluates a text as an expression. Patterns can take for ever: they are for a person who asks once.
"""

from __future__ import annotations

ALLOWED = {
    name.lower(): name
    for name in (
        "ceiling",
        "floor",
        "ifThenElse",
        "int",
        "isBoolean",
        "isError",
        "isInteger",
        "isReal",
        "isString",
        "isUndefined",
        "max",
        "member",
        "min",
        "pow",
        "quantize",
        "real",
        "round",
        "size",
        "strcat",
        "strcmp",
        "stricmp",
        "string",
        "stringListIMember",
        "stringListMember",
        "stringListSize",
        "substr",
        "toLower",
        "toUpper",
        "versionGE",
        "versionGT",
        "versionLE",
        "versionLT",
        "versionEQ",
        "versionCmp",
    )
}
"""By their names in small letters, as they are written."""
PATTERNS = {
    name.lower(): name
    for name in ("regexp", "regexps", "regexpMember", "stringListRegexpMember", "replace")
}
"""Allowed in `iriai match`, where the one who asks waits for the answer."""
CLOCKS = frozenset(
    ("time", "currenttime", "daytime", "absTime".lower(), "relTime".lower(), "formatTime".lower())
)
DICE = frozenset(("random",))


def why_not(name: str) -> str:
    """Why a function that is not allowed is refused."""
    key = name.lower()
    if key in CLOCKS:
        return f"{name}() reads the clock"
    if key in DICE:
        return f"{name}() draws random numbers"
    if key in PATTERNS:
        return f"{name}() matches a pattern, which can take unlimited time"
    return f"there is no function {name}()"
