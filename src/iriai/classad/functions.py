"""The functions that an expression may call.

A function is allowed if its result depends on its arguments alone, and if it ends soon for any
arguments. Functions that read the clock, random numbers, the environment or the machine are
refused, and so are those that evaluate a text as an expression. Patterns can take very long: they
are only for a person who asks once.
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
"""By their names in lower case: the names as they are written."""
PATTERNS = {
    name.lower(): name
    for name in ("regexp", "regexps", "regexpMember", "stringListRegexpMember", "replace")
}
"""Allowed in `iriai match`, where the user waits for the answer."""
CLOCKS = frozenset(
    ("time", "currenttime", "daytime", "absTime".lower(), "relTime".lower(), "formatTime".lower())
)
DICE = frozenset(("random",))


def why_not(name: str) -> str:
    """Return why a function that is not allowed is refused."""
    key = name.lower()
    if key in CLOCKS:
        return f"{name}() reads the clock"
    if key in DICE:
        return f"{name}() draws random numbers"
    if key in PATTERNS:
        return f"{name}() matches a pattern, which can take unlimited time"
    return f"there is no function {name}()"
