"""States whose names are taken: by other columns, or by a state that differs only in case."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_savepoint.formats.metadata import write_metadata
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.request import Table, TableRequest
from pyspark_savepoint.statebackends.tables.keyed_table import column_names
from tests.fuzz.seeds import SHOP, seeds_of


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["total", "Total"], ["total", "state_Total"]),
        (["KEY"], ["state_KEY"]),
        (["key", "state_key"], ["state_key_", "state_key"]),
        (["a__last_access", "a"], ["a__last_access", "state_a"]),
        (["a", "a__last_access"], ["a", "state_a__last_access"]),
        (["a", "A", "aa", "AA", "Aa", "aA"], ["a", "state_A", "aa", "state_AA", "state_Aa_", "state_aA_3"]),
        (["aa", "AA", "aA", "Aa", "STATE_AA_"], ["aa", "state_AA", "state_aA_3", "state_Aa_4", "STATE_AA_"]),
        (["key_group", "subtask", "SubTask"], ["state_key_group", "state_subtask", "state_SubTask_"]),
    ],
)
def test_every_state_has_a_column_of_its_own(states: list[str], expected: list[str]) -> None:
    names = column_names(states, namespaced=True)
    assert [names[state] for state in states] == expected


def test_window_is_taken_only_where_there_are_windows() -> None:
    assert column_names(["window"], namespaced=False) == {"window": "window"}
    assert column_names(["window"], namespaced=True) == {"window": "state_window"}


def rows(table: Table) -> list[dict[str, object]]:
    return [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]


def test_a_state_called_like_a_column(tmp_path: Path) -> None:
    (seed,) = (seed for seed in seeds_of(SHOP / "savepoint") if seed.operators[0].uid == "accounts")
    tables = []
    for folder, name in (("as_it_is", b"profile"), ("renamed", b"SubTask")):
        (tmp_path / folder).mkdir()
        data = write_metadata(seed).replace(b"\0\7profile", b"\0\7" + name)
        (tmp_path / folder / "_metadata").write_bytes(data)
        tables.append(open_table(TableRequest(str(tmp_path / folder), uid="accounts", include_key_group=True)))
    plain, renamed = tables
    assert plain.warnings == ()
    assert renamed.warnings == ("state 'SubTask' is in column 'state_SubTask', because another column has its name",)
    assert [name.replace("profile", "state_SubTask") for name in plain.schema.names] == renamed.schema.names
    values = [list(row.values()) for row in rows(plain)]
    assert len(values) == 200
    assert [list(row.values()) for row in rows(renamed)] == values
