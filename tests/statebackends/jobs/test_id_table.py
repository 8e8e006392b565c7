"""The ids of a graph as a table, and its hasher as a setting."""

from __future__ import annotations

import pytest

from pyspark_savepoint import StreamGraph, operator_ids
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.jobs.graph.operator_ids import generated_ids


def graph(**settings: str) -> StreamGraph:
    made = StreamGraph(**settings)  # type: ignore[arg-type]  # settings are texts here
    count = made.operator("count", made.source("orders", uid="orders").key_by())
    made.sink("print", count)
    return made


def test_ids_of_a_graph() -> None:
    found = operator_ids(graph()).to_pylist()
    assert [(row["name"], row["uid"], row["by"]) for row in found] == [
        ("orders", "orders", "uid"), ("count", None, "v2"), ("print: Writer", None, "v2"),
    ]  # fmt: skip
    assert found[0]["operator_id"] == OperatorID.from_uid("orders").hex
    assert [row["operator_id"] for row in found] == [each.hex for each in generated_ids(graph()).values()]


def test_the_hasher_is_a_setting_of_the_graph() -> None:
    """``execution.stream-graph-hasher.version`` with its getter and setter."""
    older, newer = operator_ids(graph()).to_pylist(), operator_ids(graph(hasher="v3")).to_pylist()
    assert [row["by"] for row in newer] == ["uid", "v3", "v3"]
    for old, new in zip(older[1:], newer[1:], strict=True):
        assert list(new["alternatives"]) == (
            [] if old["operator_id"] == new["operator_id"] else [("v2", old["operator_id"])]
        )
    changed = graph()
    changed.hasher = "V3"
    assert changed.hasher == "v3"
    assert operator_ids(changed).to_pylist() == newer
    assert operator_ids(changed, hasher="v2").to_pylist() == older
    with pytest.raises(OptionError, match="unknown version of the stream graph hasher"):
        changed.hasher = "v4"
