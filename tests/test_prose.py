"""Pages are read at once: their sentences are short, and few have a semicolon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose import Prose, pages, text_of


@pytest.mark.parametrize("page", pages(), ids=str)
def test_sentences_are_short(page: Path) -> None:
    prose = Prose.of(text_of(page))
    assert sum(prose.words) / len(prose.words) <= 16
    assert max(prose.words) <= 35, prose.longest(1)
    assert prose.semicolons < 0.05


def test_cells_items_and_code_are_told_apart() -> None:
    text = "One two. `a`, `b`, `c` three:\n\n    python -m x one two three four\n\n| four five | six; seven |\n"
    assert Prose.of(text).sentences == ("One two.", "Code three:", "four five", "six; seven")
