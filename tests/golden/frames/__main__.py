"""Writes the golden files of frames and stored values anew: `python -m tests.golden.frames`.

Right where a message is new, or where a format changes on purpose, with its version raised; see
docs/architecture.md. A rename, a move or any other change of the source alone leaves them as they
are.
"""

from __future__ import annotations

from tests.golden.frames.families import families
from tests.golden.frames.texts import FOLDER, OTHERS, file_of, text_of


def main() -> None:
    """All of them, and none for a family that is gone."""
    known = families()
    for file in set(FOLDER.glob("*.txt")) - {file_of(each.name) for each in known}:
        file.unlink()
    for each in known:
        file_of(each.name).write_text(text_of(each))
    for name, text in OTHERS.items():
        (FOLDER / name).write_text(text())


main()
