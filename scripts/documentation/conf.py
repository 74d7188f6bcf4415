"""What Sphinx is told; `make docs` calls it through scripts/documentation/__main__.py."""

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
autodoc_class_signature = "separated"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
default_role = "code"
"""One backtick in a docstring is code."""
highlight_language = "none"
"""Blocks that name no language are terminals."""
