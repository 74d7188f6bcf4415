"""The parser of expressions, with the precedence of ClassAds, which is that of C.

What HTCondor's library would read and we do not (records, subscripts, names in quotes, octal and
hexadecimal numbers, comments) is refused, so that what is accepted means the same to both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from iriai.classad import syntax_tree as tree
from iriai.classad.functions import ALLOWED, PATTERNS, why_not
from iriai.classad.lexer import Lexeme, syntax_problem, tokens
from iriai.model.problem import UsageProblem

DEPTH_MAX = 50
"""Of parentheses, operators and functions in each other. Nobody writes more by hand; each level
costs a few calls of everything that walks over the tree."""
INTEGER_MAX = 2**63 - 1
"""The largest that the language can hold."""
INTEGER_DIGITS = len(str(INTEGER_MAX))
"""Python refuses to read numbers of some thousands of digits."""
SCOPES = ("MY", "TARGET")
FORBIDDEN = ("requirements", "rank")
"""Attributes of an ad that are expressions themselves: they could refer to each other for ever."""

LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!=", "=?=", "=!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>", ">>>"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Binary operators, the weakest first; all of them from the left."""
LEVEL_OF: Mapping[str, int] = {
    operator: level for level, operators in enumerate(LEVELS) for operator in operators
}
CHAINS = ("||", "&&")
WORDS: Mapping[str, str] = {"is": "=?=", "isnt": "=!="}
"""Operators that are words."""
_LITERALS: Mapping[str, tree.Literal] = {
    "true": tree.Literal(True),
    "false": tree.Literal(False),
    "undefined": tree.Literal(tree.UNDEFINED),
    "error": tree.Literal(tree.ERROR),
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def parse(text: str, *, patterns: bool = False) -> tree.Node:
    """The tree of `text`; with `patterns`, functions that look for them may be called.

    Raises:
        UsageProblem: what is wrong, where, and what would be right.
    """
    return _Parser(text, patterns).whole()


class _Parser:
    """Reads one expression."""

    def __init__(self, text: str, patterns: bool) -> None:
        self._text = text
        self._functions = {**ALLOWED, **PATTERNS} if patterns else ALLOWED
        self._tokens = tokens(text)
        self._token = next(self._tokens)
        self._depth = 0

    def whole(self) -> tree.Node:
        node = self._expression()
        if self._token.kind != "end":
            raise self._unexpected("an operator")
        return node

    # --- levels ----------------------------------------------------------------------------------

    def _expression(self) -> tree.Node:
        self._deeper(1)
        node = self._binary(0)
        if self._takes("?"):
            then = self._expression()
            self._must_take(":")
            node = tree.Conditional(node, then, self._expression())
        self._depth -= 1
        return node

    def _binary(self, weakest: int) -> tree.Node:
        """What operators of at least that level hold together."""
        node = self._unary()
        count = 0
        while (level := LEVEL_OF.get(self._operator(), -1)) >= weakest:
            operator = self._operator()
            self._advance()
            right = self._binary(level + 1)
            if operator in CHAINS:
                node = joined(operator, node, right)
            else:
                count += 1
                self._deeper(1)
                node = tree.Binary(operator, node, right)
        self._depth -= count
        return node

    def _unary(self) -> tree.Node:
        operator = self._token.text
        if self._token.kind == "operator" and operator in ("!", "-", "+", "~"):
            self._advance()
            self._deeper(1)
            node = tree.Unary(operator, self._unary())
            self._depth -= 1
            return node
        return self._defaulted()

    def _defaulted(self) -> tree.Node:
        """`?:` holds together more strongly than any other, which may surprise."""
        node = self._primary()
        count = 0
        while self._takes("?:"):
            count += 1
            self._deeper(1)
            node = tree.Default(node, self._primary())
        self._depth -= count
        return node

    def _primary(self) -> tree.Node:
        token = self._token
        if token.kind == "number":
            self._advance()
            return tree.Literal(self._number(token))
        if token.kind == "text":
            self._advance()
            return tree.Literal(self._unescaped(token))
        if token.kind == "name":
            self._advance()
            return self._named(token)
        if self._takes("("):
            node = self._expression()
            self._must_take(")")
            return node
        if self._takes("{"):
            return tree.Items(self._listed("}"))
        raise self._unexpected("a value")

    def _named(self, token: Lexeme) -> tree.Node:
        word = token.text.lower()
        if self._takes("("):
            return self._call(token)
        if word in _LITERALS:
            return _LITERALS[word]
        if self._takes("."):
            return self._scoped(token)
        if token.text.upper() in SCOPES:
            raise self._wrong(token, f"{token.text} alone", f"write {token.text}.NAME")
        if word in WORDS:
            raise self._wrong(token, f"'{token.text}' where a value belongs", "put a value before")
        return self._attribute("", token)

    def _scoped(self, token: Lexeme) -> tree.Node:
        scope = token.text.upper()
        name = self._token
        if scope not in SCOPES:
            raise self._wrong(token, f"the scope '{token.text}'", "use MY (its own ad) or TARGET")
        if name.kind != "name":
            raise self._unexpected("the name of an attribute")
        self._advance()
        return self._attribute(scope, name)

    def _attribute(self, scope: str, token: Lexeme) -> tree.Attribute:
        if token.text.lower() in FORBIDDEN:
            what = f"{token.text}, which is an expression itself,"
            raise self._wrong(token, what, "write the expression itself instead")
        return tree.Attribute(scope, token.text)

    def _call(self, token: Lexeme) -> tree.Node:
        name = self._functions.get(token.text.lower())
        if name is None:
            hint = f"use one of: {', '.join(self._functions.values())}"
            raise self._wrong(token, why_not(token.text) + ",", hint)
        return tree.Call(name, self._listed(")"))

    def _listed(self, end: str) -> tuple[tree.Node, ...]:
        found: list[tree.Node] = []
        if self._takes(end):
            return ()
        while True:
            found.append(self._expression())
            if self._takes(end):
                return tuple(found)
            self._must_take(",")

    # --- values ----------------------------------------------------------------------------------

    def _number(self, token: Lexeme) -> int | float:
        text = token.text
        if text.isdecimal():
            if len(text) > 1 and text[0] == "0":
                raise self._wrong(token, f"{text}, which would be octal,", "leave the 0 out")
            if len(text) > INTEGER_DIGITS or int(text) > INTEGER_MAX:
                hint = f"whole numbers go up to {INTEGER_MAX}"
                raise self._wrong(token, f"{text[:30]}, which is too large,", hint)
            return int(text)
        if float(text) == float("inf"):
            raise self._wrong(
                token, f"{text[:30]}, which is too large,", "numbers go up to 1.8e308"
            )
        return float(text)

    def _unescaped(self, token: Lexeme) -> str:
        def meant(found: re.Match[str]) -> str:
            if found[1] not in _ESCAPED:
                hint = 'there are \\" \\\\ \\n \\t and \\r'
                raise syntax_problem(
                    self._text, token.position + 1 + found.start(), f"'{found[0]}'", hint
                )
            return _ESCAPED[found[1]]

        return _ESCAPE.sub(meant, token.text[1:-1])

    # --- words -----------------------------------------------------------------------------------

    def _operator(self) -> str:
        token = self._token
        if token.kind == "name":
            return WORDS.get(token.text.lower(), "")
        return token.text if token.kind == "operator" else ""

    def _advance(self) -> None:
        self._token = next(self._tokens)

    def _takes(self, operator: str) -> bool:
        if self._token.kind == "operator" and self._token.text == operator:
            self._advance()
            return True
        return False

    def _must_take(self, operator: str) -> None:
        if not self._takes(operator):
            raise self._unexpected(f"'{operator}'")

    def _deeper(self, levels: int) -> None:
        self._depth += levels
        if self._depth > DEPTH_MAX:
            raise syntax_problem(
                self._text,
                self._token.position,
                f"more than {DEPTH_MAX} levels of parentheses and operators",
                "nest less; && and || may stand side by side without limit",
            )

    def _unexpected(self, wanted: str) -> UsageProblem:
        token = self._token
        if token.kind == "end":
            what, hint = f"{wanted} is missing", f"go on with {wanted}"
        else:
            what, hint = f"'{token.text[:30]}' where {wanted} belongs", f"write {wanted} there"
            previous = self._text[token.position - 1 : token.position]
            if token.kind == "name" and previous.isdigit():
                hint = "write the number out: Memory is in MiB, Disk in KiB"
        return syntax_problem(self._text, token.position, what, hint)

    def _wrong(self, token: Lexeme, what: str, hint: str) -> UsageProblem:
        return syntax_problem(self._text, token.position, what, hint)


def joined(operator: str, left: tree.Node, right: tree.Node) -> tree.Chain:
    """One chain of both; `&&` and `||` may be grouped as one likes."""
    parts: list[tree.Node] = []
    for node in (left, right):
        if isinstance(node, tree.Chain) and node.operator == operator:
            parts += node.parts
        else:
            parts.append(node)
    return tree.Chain(operator, tuple(parts))
