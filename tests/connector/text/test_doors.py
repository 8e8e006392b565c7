"""Shared sentences in the words of rows, verbs and SQL; ``command_line/test_wording.py`` has those of commands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyspark_savepoint.text.doors import of_open, of_rows, of_sql, of_verbs

SENTENCES: list[tuple[Callable[[str], str], str, str]] = [
    (
        of_rows,
        "with_state(...) replaces all of it, sp.remove_state('total') removes it first",
        "mode('overwrite') with option 'state' (INSERT OVERWRITE) replaces all of it, "
        "Savepoint.load(spark, path).remove_state('total') removes it first",
    ),
    (of_rows, "call create(max_parallelism=...)", "option 'maxParallelism'"),
    (of_verbs, "option 'typesFrom' names it; option('table', 'timers')", "option 'types_from' names it; timers(uid)"),
    (of_verbs, """option("raw", "total"), option('kryo', ...)""", "raw='total', kryo=..."),
    (of_verbs, "name it by 'uid', 'uidHash' or 'operatorName'", "name it by its uid"),
    (of_verbs, "option('includeStateWindow', 'true')", "include_state_window=True"),
    (of_open, "Savepoint.load(spark, path).with_operator(...)", "open(path).with_operator(...)"),
    (of_sql, "option 'keys'; option('table', 'timers')", "argument 'keys'; table => 'timers'"),
    (of_sql, "the path without options lists them", "savepoint_states(path) lists them"),
    (of_sql, "did you mean 'total' or 'perDay'?", "did you mean 'total' or 'perDay'?"),
]


@pytest.mark.parametrize(("worded", "text", "expected"), SENTENCES)
def test_sentences(worded: Callable[[str], str], text: str, expected: str) -> None:
    assert worded(text) == expected
