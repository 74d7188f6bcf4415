"""What an operator does: with their key, which is read here and nowhere else."""

from __future__ import annotations

import getpass
import os
import sys
import time
from typing import TYPE_CHECKING

from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed

if TYPE_CHECKING:
    from iriai.identity.operator_key import Operator

OPERATOR_VARIABLE = "IRIAI_OPERATOR"
"""Names the directory of an operator's key that is not in the state directory."""


def open_operator(state_directory: str) -> Operator:
    """The operator whose key lies with this state directory, or where `$IRIAI_OPERATOR` says.

    Asks for the passphrase where there is one. Raises a `Problem`.
    """
    from iriai.identity.operator_key import Operator

    directory = os.environ.get(OPERATOR_VARIABLE) or StatePaths(state_directory).operator
    return Operator.load(directory, _ask_passphrase)


def ask_new_passphrase() -> str:
    """A passphrase, typed twice. Raises a `Problem`."""
    first = _ask("Passphrase of your operator's key: ")
    if first != _ask("The same again: "):
        raise NotAllowed("wrong-passphrase", "these are two passphrases", "try again")
    return first


def issuer_bundle(state_directory: str, machine: str) -> bytes:
    """A new issuer, to be kept by `machine`. Raises a `Problem`."""
    from iriai.identity.cluster_files import bundle_of

    operator = open_operator(state_directory)
    return bundle_of(operator.authority().issuer(machine, time.time()))


def _ask_passphrase() -> str:
    return _ask("Passphrase of your operator's key: ")


def _ask(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise NotAllowed(
            "no-terminal",
            "the operator's key has a passphrase, and there is no terminal to type it at",
            "do it at a terminal",
        )
    return getpass.getpass(prompt)
