"""Whether the program of a job is a binary of its user's, and for which machines."""

from __future__ import annotations

import os

from iriai.model.architecture import HEAD_BYTES, OF_MACHINES, BinaryKind, binary_of


def binary_at(word: str, directory: str) -> BinaryKind | None:
    """Return for which machines the program is that `word` names; None: any may have it.

    A path where each machine has programs of its own is no file of the user's, nor is a name
    without a slash. What cannot be read is told by the task.
    """
    if "/" not in word:
        return None
    path = os.path.realpath(os.path.join(directory, word))
    if path.startswith(OF_MACHINES) or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb", buffering=0) as file:
            return binary_of(file.read(HEAD_BYTES))
    except OSError:
        return None
