"""Settings of Sphinx for the documentation site; ``__main__.py`` builds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.util.nodes import make_refnode

from pyspark_savepoint import __version__ as release  # noqa: F401  (a name that Sphinx reads)

project = "pyspark-savepoint"
copyright = "the authors of pyspark-savepoint"  # noqa: A001  (the name that Sphinx reads)
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "pyspark-savepoint"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "search.js")
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
exclude_patterns = ["static"]

myst_heading_anchors = 5
#: Python where it can be parsed as such: examples of docstrings; all else without a language is plain text.
highlight_language = "default"

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = True
napoleon_numpy_docstring = False
add_module_names = False

# Each cross-reference of a docstring must lead somewhere; types in signatures may be names of private modules.
nitpicky = True
nitpick_ignore_regex = [("py:class|py:obj|py:data", ".*"), ("py:exc", r"(?!.*pyspark_savepoint).*")]


def by_end_of_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve a reference to a public name, such as ``Savepoint.write``, from the docstring of another module."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target:
        return None
    found = [(name, entry) for name, entry in env.domains["py"].objects.items() if name.endswith(f".{target}")]
    if len(found) != 1:
        return None
    ((name, entry),) = found
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, name)


def without_internal(_app: Any, what: str, _name: str, value: Any, _options: Any, signature: Any, result: Any) -> Any:
    """Leave out the signature of classes whose constructor is not for users."""
    if what == "class" and (value.__init__.__doc__ or "").startswith("Internal"):
        return "", result
    return signature, result


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.connect("autodoc-process-signature", without_internal)
    app.connect("missing-reference", by_end_of_name)
