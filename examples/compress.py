"""The work of the demonstration: compress and hash one part of the Python standard library.

Usage: compress.py PARTS FILES; which part, IRIAI_TASK_ID says, and of it FILES files are taken.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import sys
import sysconfig
from pathlib import Path

PARTS = int(sys.argv[1])
FILES = int(sys.argv[2])
INDEX = int(os.environ["IRIAI_TASK_ID"])
LIBRARY = Path(sysconfig.get_path("stdlib"))


def main() -> None:
    """Print digest, sizes and name of each file of this part."""
    files = sorted(LIBRARY.glob("*.py")) + sorted(LIBRARY.glob("[a-z]*/*.py"))
    for path in files[INDEX % PARTS :: PARTS][:FILES]:
        content = path.read_bytes()
        packed = lzma.compress(content, preset=6)
        digest = hashlib.sha256(content).hexdigest()
        print(digest[:16], len(content), len(packed), path.relative_to(LIBRARY))


if __name__ == "__main__":
    main()
