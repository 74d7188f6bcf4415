"""`python -m iriai`: the command, where its program is not on the PATH."""

from __future__ import annotations

from iriai.cli.main import main

if __name__ == "__main__":
    main()
