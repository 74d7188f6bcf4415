"""Write every golden file of the command line anew: `python -m tests.golden.cli`."""

from __future__ import annotations

from tests.golden.cli.golden_file import write_folder
from tests.golden.cli.help_pages import PAGES, pages
from tests.golden.cli.problem_codes import CODES, codes_text
from tests.golden.cli.screens import SCREENS, screens
from tests.golden.cli.story import DOCUMENTS, told

if __name__ == "__main__":
    write_folder(PAGES, pages())
    write_folder(SCREENS, screens())
    CODES.write_text(codes_text(), encoding="utf-8")
    write_folder(DOCUMENTS, told())
