"""What Sphinx is told; `make docs` calls it through scripts/documentation/__main__.py."""

from typing import Any

import iriai

project = "iriai"
html_title = f"iriai {iriai.__version__}"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
"""Headings have the anchors that forges give them, as the pages use them among each other."""
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
smartquotes = False
"""Options begin with two hyphens, not with a dash."""
default_role = "code"
"""One backtick in a docstring is code."""
highlight_language = "none"
"""Blocks that name no language are terminals."""

_plain: dict[str, list[str]] = {}


def keep_attributes(_app: Any, what: str, name: str, *rest: Any) -> None:  # noqa: ANN401 - Sphinx
    """Remember what the source says of a field, or that it says nothing."""
    lines = rest[-1]
    if what in ("attribute", "data", "property"):
        _plain[name] = [] if lines and lines[0].startswith("Alias for field") else list(lines)


def restore_attributes(_app: Any, _what: str, name: str, *rest: Any) -> None:  # noqa: ANN401 - Sphinx
    """Undo what napoleon does with a colon in it, which is no type of ours."""
    if name in _plain:
        rest[-1][:] = _plain[name]


def setup(app: Any) -> None:  # noqa: ANN401 - Sphinx
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", keep_attributes, priority=400)
    app.connect("autodoc-process-docstring", restore_attributes, priority=600)
