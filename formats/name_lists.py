"""Several names in one text, as options have them: separated by commas, or as a JSON list if a name has a comma."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pyspark_savepoint.formats.json_text import parse_json

JSON_LIST = '["'


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a text.

    >>> split_names("total, profile"), split_names('["a,b", "c"]')
    (('total', 'profile'), ('a,b', 'c'))
    """
    if text.lstrip().startswith(JSON_LIST):
        try:
            parsed = parse_json(text)
        except ValueError:
            parsed = None
        if isinstance(parsed, list) and all(isinstance(name, str) for name in parsed):
            return tuple(parsed)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def join_names(names: Iterable[str]) -> str:
    """Return the text of which :func:`split_names` makes these names.

    >>> join_names(["total", "profile"]), join_names(["a,b", "c"])
    ('total,profile', '["a,b", "c"]')
    """
    listed = list(names)
    text = ",".join(listed)
    return text if split_names(text) == tuple(listed) else json.dumps(listed, ensure_ascii=False)
