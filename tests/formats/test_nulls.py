"""The table of `formats/README.md` of where a NULL can be written; real Flink read all (`tests.oracle.nulls`)."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.nulls import nulls_table

README = Path(__file__).parents[2] / "formats" / "README.md"


def test_what_is_written_and_what_is_refused_is_what_flink_was_asked_about() -> None:
    text = README.read_text("utf-8")
    _, _, rest = text.partition("<!-- nulls: ")
    _, _, rest = rest.partition("-->\n")
    table, _, _ = rest.partition("\n<!-- end of nulls -->")
    assert table == nulls_table()
