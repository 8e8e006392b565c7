"""Which table a request selects, and the texts of errors."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.errors import (
    CorruptStateError,
    OperatorNotFoundError,
    OptionError,
    SavepointError,
    SnapshotNotFoundError,
    StateNotFoundError,
    UndecodableStateError,
)
from pyspark_savepoint.formats.metadata.key_groups import KeyGroupRange
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.open_table import open_table
from pyspark_savepoint.statebackends.requests.applicability import TABLES
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.keyed_sources import refuse_overlaps


@pytest.fixture
def lab(corpus: Path) -> str:
    return str(corpus / "lab" / "2.2.1-hashmap-canonical" / "savepoint")


def names(path: str, **options: Any) -> Sequence[str]:
    columns: Sequence[str] = open_table(TableRequest(path, **options)).schema.names
    return columns


def text_of(error: type[SavepointError], path: str, **options: Any) -> str:
    """Return the error text of a request for an impossible table."""
    with pytest.raises(error) as raised:
        open_table(TableRequest(path, **options))
    return str(raised.value)


# -- which table ---------------------------------------------------------------------------------------------------


def test_a_path_alone_lists_states_and_a_folder_of_snapshots_lists_those(lab: str, corpus: Path) -> None:
    assert "value_type" in names(lab)
    assert "checkpoint_id" in names(str(corpus / "lab"))
    # One snapshot is a list too: a second one does not change how a folder is read.
    assert "checkpoint_id" in names(str(Path(lab).parent))
    text = text_of(SnapshotNotFoundError, str(Path(lab).parent), uid="kv-pojo")
    assert f"found: {lab}" in text


def test_the_default_table_is_what_the_operator_has(lab: str) -> None:
    assert names(lab, uid="kv-pojo") == ["key", "count"]
    assert names(lab, uid="op-union") == ["value"]
    assert names(lab, uid="op-broadcast") == ["key", "value"]
    assert names(lab, uid="op-list", state="op-ints") == ["value"]
    assert names(lab, uid="window-tumbling-reduce", table="window_state") == ["key", "window", "window-contents"]
    # Windows that are all one are no column.
    assert names(lab, uid="window-global-count", table="window_state") == ["key", "count", "window-contents"]
    assert names(lab, uid="kv-long", table="timers") == ["key", "timestamp", "domain", "service"]
    assert names(lab, uid="window-session", table="timers") == ["key", "namespace", "timestamp", "domain", "service"]


def test_extra_columns(lab: str) -> None:
    assert names(lab, uid="kv-pojo", include_key_group=True) == ["key", "count", "key_group", "subtask"]
    assert names(lab, uid="op-union", include_key_group=True) == ["value", "subtask"]
    ttl = names(lab, uid="kv-long", state="ttl-long,ttl-map", include_ttl=True)
    assert ttl == ["key", "ttl-map", "ttl-map__last_access", "ttl-long", "ttl-long__last_access"]


@pytest.mark.parametrize("table", sorted(set(TABLES) - {"snapshots"}))
def test_every_partition_crosses_process_borders(lab: str, table: str) -> None:
    options: dict[str, Any] = {
        "keyed_state": {"uid": "kv-long", "keys": "[-1]"},
        "window_state": {"uid": "window-session"},
        "timers": {"uid": "kv-long"},
        "operator_state": {"uid": "op-list", "state": "op-ints"},
    }.get(table, {})
    opened = open_table(TableRequest(lab, table=table, **options))

    for partition in opened.partitions(3):
        copy = pickle.loads(pickle.dumps(partition))
        assert list(copy.batches()) == list(partition.batches())
    assert opened.max_parallelism in (None, 128)
    assert opened.state_bytes >= 0


def test_fields_say_what_they_are_in_flinks_words(lab: str) -> None:
    schema = open_table(TableRequest(lab, uid="kv-long")).schema

    comments = {field.name: field.metadata[b"comment"].decode() for field in schema}
    assert comments["key"] == "key LONG"
    assert comments["map-sl"] == "MAP MAP<STRING, LONG>"
    assert comments["agg-avg"] == "AGGREGATING TUPLE<LONG, LONG>"


# -- errors --------------------------------------------------------------------------------------------------------


def test_unknown_names_are_answered_with_the_nearest(lab: str) -> None:
    assert "did you mean 'kv-long'" in text_of(OperatorNotFoundError, lab, uid="kv-lng")
    assert "did you mean 'v-double'" in text_of(StateNotFoundError, lab, uid="kv-long", state="v-doubl")
    assert "did you mean 'user-timers'" in text_of(
        StateNotFoundError, lab, uid="kv-long", table="timers", state="usertimers"
    )
    assert "did you mean 'op-ints'" in text_of(
        StateNotFoundError, lab, uid="op-list", state="op-int", table="operator_state"
    )
    assert "did you mean 'timers'" in text_of(OptionError, lab, uid="kv-long", table="timer")
    assert "there is no file or folder at this path" in text_of(SnapshotNotFoundError, lab + "-not")


def test_what_is_missing_is_named(lab: str) -> None:
    assert "option 'table' needs an operator" in text_of(OptionError, lab, table="keyed_state")
    assert "option 'state' needs an operator" in text_of(OptionError, lab, state="v-long")
    text = text_of(OptionError, lab, uid="op-list")
    assert "option 'state' is missing" in text
    assert "'op-ints'" in text
    assert "'op-tuples'" in text


def test_the_other_table_is_named_where_a_state_is_not_in_this(lab: str) -> None:
    wrong = {"uid": "window-tumbling-process", "state": "window-contents"}
    assert "option('table', 'window_state') has it" in text_of(StateNotFoundError, lab, table="keyed_state", **wrong)
    text = text_of(StateNotFoundError, lab, uid="window-global-count", table="keyed_state")
    assert "the operator has no keyed_state" in text
    assert "option('table', 'window_state') has its states" in text


def test_an_operator_without_such_a_table(lab: str) -> None:
    assert "the operator has no timers" in text_of(StateNotFoundError, lab, uid="op-list", table="timers")
    assert "the operator has no keyed_state" in text_of(StateNotFoundError, lab, uid="op-union", table="keyed_state")


def test_columns_are_chosen_by_name(lab: str) -> None:
    requests: list[dict[str, Any]] = [
        {"uid": "kv-long"},
        {"uid": "op-union"},
        {"uid": "kv-long", "table": "timers"},
        {},
    ]
    for options in requests:
        with pytest.raises(OptionError, match="there is no column 'vale'"):
            open_table(TableRequest(lab, **options)).select(["vale"])


def test_only_lists_and_maps_are_flattened(lab: str) -> None:
    assert "'flatten' reads one list or map state" in text_of(OptionError, lab, uid="kv-long", flatten=True)
    text = text_of(OptionError, lab, uid="kv-long", state="v-long", flatten=True)
    assert "v-long (VALUE)" in text
    assert "without 'flatten'" in text


def test_opaque_values_are_binary_with_a_warning_or_an_error(lab: str) -> None:
    table = open_table(TableRequest(lab, uid="kv-kryo"))

    assert table.schema.field("no-default").type == pa.binary()
    (warning,) = table.warnings
    assert "'no-default'" in warning
    assert "KRYO<flinklab.Model$NoDefault>" in warning
    assert "pyspark_savepoint.kryo_classes" in warning

    text = text_of(UndecodableStateError, lab, uid="kv-kryo", undecodable="error")
    assert "option('undecodable', 'binary')" in text
    assert open_table(TableRequest(lab, uid="kv-kryo", state="bitset", undecodable="error")).warnings == ()


def test_key_groups_that_two_handles_have_are_refused(lab: str) -> None:
    savepoint = Snapshot.open(lab)
    operator = savepoint.operator(uid="kv-long")

    refuse_overlaps(savepoint, operator, [KeyGroupRange(64, 127), KeyGroupRange(0, 63), KeyGroupRange(0, -1)])
    with pytest.raises(CorruptStateError, match="two handles of the operator have the same key group") as raised:
        refuse_overlaps(savepoint, operator, [KeyGroupRange(63, 127), KeyGroupRange(0, 63)])
    assert raised.value.facts["found"] == "key groups 0 to 63 and key groups 63 to 127"


def test_a_table_says_how_the_type_of_its_keys_is_known(flink_resources: Path) -> None:
    path = str(flink_resources / "datastream" / "new-stateful-udf-migration-itcase-flink1.17-hashmap-checkpoint")

    table = open_table(TableRequest(path, uid_hash="d5c8b168c6cbfe8c507a10f88b325243"))

    (warning,) = table.warnings
    assert "their key groups fit LONG" in warning
    rows = [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]
    assert sorted(row["key"] for row in rows) == [0, 1, 2, 3]
