"""One question about state that exists has one answer, whichever way it is asked.

The ways without Spark: the data source's own steps (those of ``df.write`` and SQL), the verbs of ``open``, the command
``put``. Each question is rows and options for one state of the same savepoint; its answer is what is registered
afterwards, or the text of a refusal. ``test_with_spark`` asks a few through ``df.write``, SQL and ``Savepoint``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType
from pyspark.sql.udtf import AnalyzeArgument

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint, Savepoint
from pyspark_savepoint.api.inspection import By
from pyspark_savepoint.api.spark.catalog import ChangesFunction, analyzed, rows_of
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.engines.arrow.local_table import SnapshotTable
from pyspark_savepoint.formats.errors import SavepointError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.insight.metrics import MOST_STATES, PREFIX
from pyspark_savepoint.insight.surveys import Surveys
from pyspark_savepoint.options.option_values import to_options
from pyspark_savepoint.options.options import SavepointReadOptions
from pyspark_savepoint.options.write_options import SavepointWriteOptions
from pyspark_savepoint.statebackends.writing.committer import abort, commit
from pyspark_savepoint.statebackends.writing.write_task import write_rows
from pyspark_savepoint.testing import assert_restores, assert_schema, assert_state, assert_verdict
from pyspark_savepoint.write.in_place import plan_write
from tests.connector.command_line.conftest import Ran
from tests.connector.command_line.test_metrics import parsed
from tests.connector.insight.read_page import Read
from tests.data import located
from tests.statebackends.writing.whole_operator import PARTS, contents, rows_for, written_base

KEYS = pa.array([1, 2, 3], pa.int64())
MOMENT = pa.timestamp("us", "UTC")
SPANS = pa.array([{"start": 0, "end": 1}] * 3)
LONGS = pa.array([10, 20, 30], pa.int64())
TAGS = pa.array([["a"], ["b", "c"], ["d"]])
SCORES = pa.array([[("x", 1)], [("y", 2)], [("z", 3)]], pa.map_(pa.string(), pa.int64()))
#: Kinds and types of the savepoint that every question is about.
BEFORE = {
    "coupon": ("VALUE", "TTL<STRING>"),
    "total": ("REDUCING", "LONG"),
    "mean": ("AGGREGATING", "TUPLE<LONG, LONG>"),
    "tags": ("LIST", "LIST<TTL<STRING>>"),
    "scores": ("MAP", "MAP<STRING, TTL<LONG>>"),
}
MEAN = pa.array([{"f0": 1, "f1": 2}] * 3, pa.struct([("f0", pa.int64()), ("f1", pa.int64())]))
STATES = {"coupon": pa.array(["a", "b", "c"]), "total": LONGS, "mean": MEAN, "tags": TAGS, "scores": SCORES}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_base(tmp_path_factory.mktemp("doors") / "base")


def made_base(path: Path) -> Path:
    """Write a savepoint of max parallelism 512 with a state of each kind, of which three have a time to live."""
    rows = pa.table({"key": KEYS, **STATES})
    kinds = {"total": "reducing", "mean": "aggregating"}
    new = pyspark_savepoint.create(max_parallelism=512)
    new = new.with_operator("op", rows, states=kinds, ttl=["coupon", "tags", "scores"])
    rates = pa.table({"key": ["EUR", "USD"], "value": [1.0, 1.5]})
    new = new.with_broadcast_state("op", "rates", rates, types={"value": "FLOAT"})
    new = new.with_list_state("op", "sent", pa.table({"value": LONGS}), types={"value": "INT"})
    new.write(path)
    assert registered(path) >= BEFORE.items()
    return path


def registered(path: Path, uid: str = "op") -> Any:
    """Kind and type of each state of an operator."""
    rows = pyspark_savepoint.open(path).states().rows()
    return {
        row["state"]: (row["kind"], row["value_type"]) for row in rows if row["operator_uid"] == uid and row["state"]
    }.items()


def max_parallelisms(path: Path) -> dict[str | None, int]:
    """The max parallelism of each operator."""
    return {operator.uid: operator.max_parallelism for operator in Snapshot.open(str(path)).operators}


Options = Mapping[str, Any]
#: Writes rows to a state of a copy of the savepoint, and returns the path of the result.
Door = Callable[[Path, Path, pa.Table, str, str, Options], Path]


def by_data_source(base: Path, folder: Path, rows: pa.Table, uid: str, state: str, options: Options) -> Path:
    """The steps of ``df.write.mode('overwrite').option('state', ...)``, and so of ``INSERT OVERWRITE``."""
    path = Path(shutil.copytree(base, folder / "written"))
    texts = {name: text if isinstance(text, str) else json.dumps(text) for name, text in options.items()}
    given = {"path": str(path), "uid": uid, "state": state, "retention": "0", **texts}
    plan = plan_write(SavepointWriteOptions.parse(given).request(True), rows.schema)
    try:
        commit(plan, [write_rows(plan, 0, rows.to_batches())])
    except SavepointError:
        abort(plan)
        raise
    return path


def by_verb(base: Path, folder: Path, rows: pa.Table, uid: str, state: str, options: Options) -> Path:
    """``with_state``, or ``with_operator`` where there is no such operator."""
    savepoint = pyspark_savepoint.open(base)
    if savepoint.plan.find(uid) is None:
        return Path(str(savepoint.with_operator(uid, rows, **options).write(folder / "verb").path))
    options = {name: option for name, option in options.items() if name != "table"}
    return Path(str(savepoint.with_state(uid, state, rows, replace=True, **options).write(folder / "verb").path))


class RefusedError(Exception):
    """What the command line said."""


def by_command(base: Path, folder: Path, rows: pa.Table, uid: str, state: str, options: Options) -> Path:
    """``pyspark-savepoint put --replace``."""
    options = options if "upsert" in options else {"replace": True, **options}
    file = folder / "rows.parquet"
    parquet.write_table(rows, file)
    words = [str(base), str(folder / "put"), uid, str(file), state]
    for name, option in options.items():
        if name == "types":
            words += [f"--type={column}={text}" for column, text in option.items()]
        elif name == "states":
            words += [f"--kind={column}={kind}" for column, kind in option.items()]
        elif name == "key":
            words += ["--key", option]
        elif name in ("upsert", "replace"):
            words += [f"--{name}"] if option else []
        elif name != "table":
            words += ["-o", f"{name}={option}"]
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stderr", _Lines(said))
        code = main(["put", *words])
    if code:
        raise RefusedError("".join(said))
    return folder / "put"


class _Lines:
    """A stream that keeps what is written."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def write(self, text: str) -> int:
        self.lines.append(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return False


DOORS: dict[str, Door] = {"data source": by_data_source, "verb": by_verb, "command": by_command}


def _rows(state: str, column: pa.Array | None = None, **more: pa.Array) -> pa.Table:
    return pa.table({"key": KEYS, state: STATES[state] if column is None else column, **more})


#: What is said of each release that is not known.
RELEASES = "a release from 1.16 to 1.20, or from 2.0 to 2.3"
#: Rows, the state, options, and what is registered for it afterwards, or what a refusal says.
QUESTIONS: dict[str, tuple[pa.Table, str, Options, tuple[str, str] | str]] = {
    "nothing is given: a value with a time to live": (_rows("coupon"), "coupon", {}, BEFORE["coupon"]),
    "nothing is given: a list with a time to live": (_rows("tags"), "tags", {}, BEFORE["tags"]),
    "nothing is given: a map with a time to live": (_rows("scores"), "scores", {}, BEFORE["scores"]),
    "nothing is given: reducing": (_rows("total"), "total", {}, BEFORE["total"]),
    "nothing is given: aggregating": (_rows("mean"), "mean", {}, BEFORE["mean"]),
    "the same type is given": (_rows("coupon"), "coupon", {"types": {"coupon": "STRING"}}, BEFORE["coupon"]),
    "another type is given": (_rows("total"), "total", {"types": {"total": "INT"}}, ("REDUCING", "INT")),
    "another type of a list is given": (
        _rows("tags", pa.array([[1], [2], [3]])), "tags", {"types": {"tags": "LIST<LONG>"}}, ("LIST", "LIST<TTL<LONG>>")
    ),
    "the type of a part is given": (
        _rows("mean", pa.array([{"f0": 1, "f1": 2}] * 3, MEAN.type)), "mean", {"types": {"mean.f1": "INT"}},
        ("AGGREGATING", "TUPLE<LONG, INT>"),
    ),
    "another kind and type are given": (
        _rows("total"), "total", {"types": {"total": "LONG"}, "states": {"total": "value"}}, ("VALUE", "LONG")
    ),
    "another kind alone is given": (
        _rows("total"), "total", {"states": {"total": "value"}}, "but the state is reducing"
    ),
    "the time to live of a value is removed": (_rows("coupon"), "coupon", {"ttl": "false"}, ("VALUE", "STRING")),
    "the time to live of a list is removed": (_rows("tags"), "tags", {"ttl": "false"}, ("LIST", "LIST<STRING>")),
    "the time to live of a map is removed": (
        _rows("scores"), "scores", {"ttl": "false"}, ("MAP", "MAP<STRING, LONG>")
    ),
    "a time to live is added": (_rows("total"), "total", {"ttl": "true"}, ("REDUCING", "TTL<LONG>")),
    "the time to live is removed, and a type given": (
        _rows("coupon"), "coupon", {"ttl": "false", "types": {"coupon": "STRING"}}, ("VALUE", "STRING")
    ),
    "last accesses of a state without a time to live": (
        _rows("coupon", coupon__last_access=pa.array([1, 2, 3], MOMENT)), "coupon",
        {"ttl": "false"}, "but state 'coupon' has no time to live",
    ),
    "a column that does not fit": (_rows("coupon", LONGS), "coupon", {}, "coupon"),
    "a state that is new": (
        pa.table({"key": KEYS, "new": LONGS}), "new", {}, ("VALUE", "LONG")
    ),
    "a name in other upper and lower case": (
        pa.table({"key": KEYS, "Total": LONGS}), "Total", {}, "a state has this name in other upper and lower case"
    ),
    "a key column in other upper and lower case": (_rows("total"), "total", {"key": "KEY"}, "did you mean 'key'"),
    "no key column": (pa.table({"total": LONGS}), "total", {}, "key"),
    "a key of another type": (
        pa.table({"key": ["a", "b", "c"], "total": LONGS}), "total", {}, "key"
    ),
    "a key that is NULL": (pa.table({"key": pa.array([1, None, 3], pa.int64()), "total": LONGS}), "total", {}, "NULL"),
    "a key that is repeated": (
        pa.table({"key": pa.array([1, 1, 3], pa.int64()), "total": LONGS}), "total", {}, "more than one"
    ),
    "a key that is repeated, of a map": (
        pa.table({"key": pa.array([1, 1, 3], pa.int64()), "scores": SCORES}), "scores", {}, "more than one"
    ),
    "values that are all NULL, without a type": (_rows("coupon", pa.nulls(3)), "coupon", {}, BEFORE["coupon"]),
    "the same, with a type": (_rows("new", pa.nulls(3)), "new", {"types": {"new": "STRING"}}, ("VALUE", "STRING")),
    "the same of a state that is new": (_rows("new", pa.nulls(3)), "new", {}, "give the column a type"),
    "a list of NULLs, without a type": (
        _rows("tags", pa.array([[None], [], [None]])), "tags", {"types": {"tags": "LIST<NULLABLE<LONG>>"}},
        ("LIST", "LIST<TTL<NULLABLE<LONG>>>"),
    ),
    "a key without a type": (pa.table({"key": pa.nulls(3), "total": LONGS}), "total", {}, "NULL"),
    "no rows": (_rows("total").slice(0, 0), "total", {}, BEFORE["total"]),
    "another max parallelism": (_rows("total"), "total", {"maxParallelism": "128"}, "differs from th"),
    "the max parallelism that it has": (_rows("total"), "total", {"maxParallelism": "512"}, BEFORE["total"]),
    "another parallelism": (_rows("total"), "total", {"parallelism": "3"}, "differs from that of the operator"),
    "the parallelism that it has": (_rows("total"), "total", {"parallelism": "1"}, BEFORE["total"]),
    "a release": (_rows("total"), "total", {"flinkVersion": "1.20"}, BEFORE["total"]),
    "a release that is too old": (_rows("total"), "total", {"flinkVersion": "1.15"}, RELEASES),
    "a release that there is not": (_rows("total"), "total", {"flinkVersion": "2.99"}, RELEASES),
    "a type that there is not": (_rows("total"), "total", {"types": {"total": "LNG"}}, "LNG"),
    "the type of no column": (_rows("total"), "total", {"types": {"totals": "LONG"}}, "'totals'"),
    "the time to live of no column": (_rows("total"), "total", {"ttl": "totals"}, "totals"),
    "the type of the key": (_rows("total"), "total", {"types": {"key": "LONG"}}, BEFORE["total"]),
    "another type of the key": (_rows("total"), "total", {"types": {"key": "INT"}}, "key"),
    "a jar that is not there": (_rows("total"), "total", {"classes": "/none.jar"}, "there is no jar or folder"),
    "a jar that is not there, for operator state": (
        pa.table({"value": LONGS}), "sent", {"table": "operator_state", "classes": "/none.jar"}, "there is no jar"
    ),
    "inferred types that nobody names": (_rows("total"), "total", {"inferredBy": "2.2"}, "names any: add them"),
    "a map with a key twice": (
        _rows("scores", pa.array([[("x", 1), ("x", 2)]] * 3, SCORES.type)), "scores", {}, "without repeated keys"
    ),
    "last accesses of a list without a list": (
        _rows("tags", tags__last_access=pa.array([1, 2, 3], MOMENT)), "tags", {}, "cast it to array<timestamp>"
    ),
    "a last access that Python cannot hold": (
        _rows("coupon", coupon__last_access=pa.array([1 << 62, 0, 0], MOMENT)), "coupon", {}, "4611686018427387904 of"
    ),
    "a map with a key twice that Python cannot hold": (
        pa.table({"key": [1], "new": pa.array([[(1 << 62, 1), (1 << 62, 2)]], pa.map_(MOMENT, pa.int64()))}), "new",
        {}, "4611686018427387904 of"
    ),
    "key groups in a column": (
        _rows("total", group=pa.array([470, 383, 369], pa.int32())), "total", {"keyGroup": "group"}, BEFORE["total"]
    ),
    "key groups of other keys": (
        _rows("total", group=pa.array([0, 383, 369], pa.int32())), "total", {"keyGroup": "group"}, "wrong key group"
    ),
    "an empty list of keys": (_rows("total"), "total", {"key": ""}, "is '', expected names separated by commas"),
    "last accesses finer than Flink's": (
        _rows("coupon", coupon__last_access=pa.array([1001] * 3, MOMENT)), "coupon", {}, "round the times"
    ),
    "too many fields": (
        _rows("mean", pa.array([{"a": 1, "b": 2, "c": 3}] * 3)), "mean", {}, "the type has 2 fields, the column 3"
    ),
    "a field twice": (
        _rows("mean", pa.StructArray.from_arrays([LONGS, LONGS], ["a", "a"])), "mean", {},
        "several fields of column 'mean' have the same name",
    ),
    "a window, of a state without windows": (_rows("total", window=SPANS), "total", {}, "'window'"),
    "all values are empty": (_rows("tags", pa.array([[], [], []], TAGS.type)), "tags", {}, BEFORE["tags"]),
}  # fmt: skip
#: States whose names other notations would take apart, and the value of option ``state``.
NAMES = {
    "a,b": '["a,b"]', "x, y": '["x, y"]', "a.b": "a.b", '["a"]': '["[\\"a\\"]"]', "q'u": "q'u", "*": "*",
    "ä/ö 😀": "ä/ö 😀",
}  # fmt: skip
#: Columns of a new state of a struct, which has its types from them, and what a refusal says.
ROW = pa.struct([("f0", pa.int64()), ("f1", pa.string()), ("__row_kind", pa.string())])
FIELDS: dict[str, tuple[pa.Array, str | None]] = {
    "a row with its kind": (pa.array([{"f0": 1, "f1": "x", "__row_kind": "+I"}] * 3, ROW), None),
    "fields of other names, and the kind": (
        pa.StructArray.from_arrays([LONGS, TAGS.flatten()[:3], pa.array(["-D"] * 3)], ["a", "b", "__row_kind"]), None
    ),
    "the kind first": (
        pa.StructArray.from_arrays([pa.array(["+I"] * 3), LONGS, TAGS.flatten()[:3]], ["__row_kind", "a", "b"]), None
    ),
    "three fields": (
        pa.StructArray.from_arrays([LONGS, TAGS.flatten()[:3], pa.array(["+I"] * 3)], ["a", "b", "c"]),
        "the type has 2 fields, the column 3",
    ),
    "a field twice": (
        pa.StructArray.from_arrays([LONGS, TAGS.flatten()[:3]], ["a", "a"]), "several fields of column 'row' have",
    ),
}  # fmt: skip


#: Words of the other doors, which no door says.
FOREIGN = {
    "data source": re.compile(r"--[a-z]|pyspark-savepoint|(?<!path\)\.)\b(?:with|update|remove)_[a-z]+|types=|\bdf\."),
    "verb": re.compile(r"--[a-z]|pyspark-savepoint|mode\(|[sS]park\b|\bdf\.|INSERT|option '[a-z]+[A-Z]|option\("),
    "command": re.compile(r"option '|option\(|(?:with|update|remove)_[a-z]+|types=|\bdf\.|Savepoint\b|spark,|mode\("),
}
#: Rows, a state, and options that each door refuses in its own words.
REFUSED: dict[str, tuple[pa.Table, str, Options]] = {
    "a column of no state": (_rows("total", other=LONGS), "total", {}),
    "no column of a state": (pa.table({"key": KEYS}), "total", {}),
    "several columns of an element": (
        pa.table({"a": LONGS, "b": LONGS}), "sent", {"table": "operator_state", "types": {"a": "INT"}}
    ),
    "no column of a broadcast state": (pa.table({"key": ["EUR"], "rate": [1.0]}), "rates", {"table": "operator_state"}),
    "a kind alone": (_rows("coupon"), "coupon", {"states": {"coupon": "map"}}),
    "a type of Kryo": (_rows("total"), "total", {"types": {"total": "KRYO<java.util.Date>"}}),
    "types that are not there": (_rows("total"), "total", {"typesFrom": "/none#op"}),
    "keys by other columns": (_rows("total"), "total", {"key": "key,key"}),
    "no column of key groups": (_rows("total"), "total", {"keyGroup": "group"}),
    "types of Python": (_rows("total"), "total", {"pyTypes": "total LONG"}),
    "a compression that there is not": (_rows("total"), "total", {"compression": "zip"}),
    "memory that is no size": (_rows("total"), "total", {"sortMemory": "much"}),
    "a jar that is not there": (_rows("total"), "total", {"classes": "/none.jar"}),
    "inferred types that nobody names": (_rows("total"), "total", {"inferredBy": "2.2"}),
}  # fmt: skip


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("mistake", list(REFUSED))
def test_each_door_has_its_own_words(base: Path, tmp_path: Path, mistake: str, door: str) -> None:
    rows, state, options = REFUSED[mistake]
    with pytest.raises((SavepointError, RefusedError)) as refused:
        DOORS[door](base, tmp_path, rows, "op", state, options)
    assert FOREIGN[door].findall(str(refused.value)) == []
    assert not (tmp_path / {"data source": "none", "verb": "verb", "command": "put"}[door]).exists()


def test_updates_are_refused_in_the_words_of_each_door(base: Path, tmp_path: Path) -> None:
    for door, update in UPDATES.items():
        folder = tmp_path / door
        folder.mkdir()
        rows = pa.table({"value": pa.array([1], pa.int32())})
        with pytest.raises((SavepointError, RefusedError), match="have no keys") as refused:
            update(base, folder, rows, "op", "sent", {"table": "operator_state"})
        assert FOREIGN[door].findall(str(refused.value)) == []
        said = {"data source": "mode('overwrite') with option 'state'", "verb": "with_state(...)", "command": "put"}
        assert f"write all of them: {said[door]}" in str(refused.value).replace("pyspark-savepoint ", "")


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("question", list(QUESTIONS))
def test_one_answer(base: Path, tmp_path: Path, question: str, door: str) -> None:
    rows, state, options, answer = QUESTIONS[question]
    if isinstance(answer, str):
        with pytest.raises((SavepointError, RefusedError)) as refused:
            DOORS[door](base, tmp_path, rows, "op", state, options)
        assert answer in str(refused.value), refused.value
        assert FOREIGN[door].findall(str(refused.value)) == []
        return
    path = DOORS[door](base, tmp_path, rows, "op", state, options)
    after = dict(registered(path))
    assert after.pop(state) == answer
    others = dict(registered(base))
    others.pop(state, None)
    assert after == others
    assert max_parallelisms(path) == {"op": 512}
    read = pyspark_savepoint.open(path).keyed_state("op", state=state).to_arrow().to_pylist()
    written = [row for row in read if row[state] is not None]
    given = rows.filter(pc.is_valid(rows[state]))
    given = given.filter(pc.greater(pc.list_value_length(given[state]), 0)) if state == "tags" else given
    assert sorted(row["key"] for row in written) == given["key"].to_pylist()


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("question", list(FIELDS))
def test_fields_of_a_row(base: Path, tmp_path: Path, question: str, door: str) -> None:
    """By name, else by position; the kind of a row has its own name."""
    column, refusal = FIELDS[question]
    rows, types = pa.table({"key": KEYS, "row": column}), {"types": {"row": "ROW<LONG, STRING>"}}
    if refusal is None:
        path = DOORS[door](base, tmp_path, rows, "op", "row", types)
        read = pyspark_savepoint.open(path).keyed_state("op", state="row", include_row_kind=True)
        kinds = [row["row"]["__row_kind"] for row in read.rows()]
        assert kinds == [row["__row_kind"] for row in column.to_pylist()]
        return
    with pytest.raises((SavepointError, RefusedError), match=refusal):
        DOORS[door](base, tmp_path, rows, "op", "row", types)


def test_an_option_has_one_name(base: Path) -> None:
    savepoint, rows = pyspark_savepoint.open(base), _rows("total")
    with pytest.raises(SavepointError, match=r"one option is given by two names(.|\n)*'sort_memory' and 'sortMemory'"):
        savepoint.with_state("op", "total", rows, sort_memory="64m", sortMemory="1g")  # type: ignore[call-arg]
    with pytest.raises(SavepointError, match=r"select the columns that do: 'total'$"):
        savepoint.with_state("op", "total", rows, key="total")


def test_rows_that_arrow_does_not_take(tmp_path: Path) -> None:
    """Of pandas, and of a reader whose rows were read, also by another savepoint."""
    pandas = pytest.importorskip("pandas")
    new = pyspark_savepoint.create()
    wrong = {
        "several columns have the same name(.|\n)*'n'": pandas.DataFrame([[1, 2, 3]], columns=["key", "n", "n"]),
        "cannot be taken as Arrow(.|\n)*column n": pandas.DataFrame({"key": [1, 2], "n": [1, "x"]}),
        "cannot be taken as Arrow(.|\n)*DataFrame": pandas.Series([1, 2], name="key"),
        "run_end_decode": pa.table({"key": KEYS, "n": pc.run_end_encode(LONGS)}),
        "list_": pa.table({"key": KEYS, "n": pa.array([[1], [2], [3]], pa.list_view(pa.int64()))}),
        "take its storage": pa.table({"key": KEYS, "n": pa.array([b"x" * 16] * 3, pa.uuid())}),
    }
    for said, rows in wrong.items():
        with pytest.raises(SavepointError, match=said):
            new.with_operator("op", rows)
    reader = pa.table({"key": KEYS, "n": LONGS}).to_reader()
    assert new.with_operator("op", reader).write(tmp_path / "one").keyed_state("op").to_arrow().num_rows == 3
    with pytest.raises(SavepointError, match="read already"):
        new.with_operator("op", reader).write(tmp_path / "two")
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize("door", list(DOORS))
def test_an_operator_that_is_new(base: Path, tmp_path: Path, door: str) -> None:
    """It has the max parallelism of the savepoint, unless one is given."""
    rows = pa.table({"key": KEYS, "n": LONGS})
    for number, options in (512, {}), (256, {"maxParallelism": "256"}):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = _added_operator(base, folder, rows, options) if door == "data source" else None
        path = path or (_put_operator if door == "command" else _with_operator)(base, folder, rows, options)
        assert max_parallelisms(path) == {"op": 512, "new": number}


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize(("table", "state"), [("keyed_state", "x"), ("window_state", "w"), ("operator_state", "rates")])
def test_all_else_of_an_operator_stays(tmp_path: Path, table: str, state: str, door: str) -> None:
    """Other states, windows, timers, operator state, state of the coordinator, raw state and records in flight."""
    base = written_base(tmp_path / "whole")
    before = contents(base)
    assert set(before) == PARTS
    options = {} if table == "keyed_state" else {"table": table}
    after = contents(DOORS[door](base, tmp_path, rows_for(table, state), "op", state, options))
    changed = f"{table} {state}"
    assert after.pop(changed) != before.pop(changed)
    assert after == before


def _added_operator(base: Path, folder: Path, rows: pa.Table, options: Options) -> Path:
    path = Path(shutil.copytree(base, folder / "written"))
    given = {"path": str(path), "uid": "new", **options}
    plan = plan_write(SavepointWriteOptions.parse(given).request(False), rows.schema)
    commit(plan, [write_rows(plan, 0, rows.to_batches())])
    return path


def _with_operator(base: Path, folder: Path, rows: pa.Table, options: Options) -> Path:
    savepoint = pyspark_savepoint.open(base).with_operator("new", rows, **options)  # type: ignore[misc]
    return Path(str(savepoint.write(folder / "verb").path))


def _put_operator(base: Path, folder: Path, rows: pa.Table, options: Options) -> Path:
    parquet.write_table(rows, folder / "rows.parquet")
    words = [word for name, text in options.items() for word in ("-o", f"{name}={text}")]
    assert main(["put", str(base), str(folder / "put"), "new", str(folder / "rows.parquet"), *words]) == 0
    return folder / "put"


def update_by_data_source(base: Path, folder: Path, rows: pa.Table, uid: str, state: str, options: Options) -> Path:
    """The steps of ``df.write.mode('append').option('state', ...)``, and so of ``INSERT INTO``, by three tasks."""
    path = Path(shutil.copytree(base, folder / "written"))
    texts = {name: text if isinstance(text, str) else json.dumps(text) for name, text in options.items()}
    given = {"path": str(path), "uid": uid, "state": state, "retention": "0", **texts}
    plan = plan_write(SavepointWriteOptions.parse(given).request(False), rows.schema)
    try:
        parts = [rows.slice(0, 1), rows.slice(0, 0), rows.slice(1)]
        commit(plan, [write_rows(plan, number, part.to_batches()) for number, part in enumerate(parts)])
    except SavepointError:
        abort(plan)
        raise
    return path


def update_by_verb(base: Path, folder: Path, rows: pa.Table, uid: str, state: str, options: Options) -> Path:
    """``update_state``."""
    options = {name: option for name, option in options.items() if name != "table"}
    updated = pyspark_savepoint.open(base).update_state(uid, state, rows, **options)
    return Path(str(updated.write(folder / "verb").path))


def update_by_command(base: Path, folder: Path, rows: pa.Table, uid: str, state: str, options: Options) -> Path:
    """``pyspark-savepoint put --upsert``."""
    return by_command(base, folder, rows, uid, state, {**options, "upsert": True})


UPDATES: dict[str, Door] = {
    "data source": update_by_data_source,
    "verb": update_by_verb,
    "command": update_by_command,
}
#: The key that changes, one that loses the state, and a new one.
THREE = pa.array([1, 2, 9], pa.int64())
KEPT = "cannot change|kind and type"
#: Rows that update a state, options, and what it is afterwards by key, or what a refusal says.
UPDATED: dict[str, tuple[str, pa.Array, Options, dict[int, Any] | str]] = {
    "a value with a time to live": ("coupon", pa.array(["x", None, "z"]), {}, {1: "x", 3: "c", 9: "z"}),
    "a reducing state": ("total", pa.array([-1, None, -9], pa.int64()), {}, {1: -1, 3: 30, 9: -9}),
    "an aggregating state": (
        "mean", pa.array([{"f0": 5, "f1": 6}, None, {"f0": 7, "f1": 8}], MEAN.type), {},
        {1: {"f0": 5, "f1": 6}, 3: {"f0": 1, "f1": 2}, 9: {"f0": 7, "f1": 8}},
    ),
    "a list": ("tags", pa.array([["n"], [], ["o", "p"]]), {}, {1: ["n"], 3: ["d"], 9: ["o", "p"]}),
    "a map": (
        "scores", pa.array([[("n", 1)], None, [("o", 2)]], SCORES.type), {},
        {1: [("n", 1)], 3: [("z", 3)], 9: [("o", 2)]},
    ),
    "a state in other upper and lower case": ("Total", LONGS, {}, "total"),
    "a column of another type": ("coupon", LONGS, {}, "coupon"),
    "another type": ("total", pa.array([1, 2, 3], pa.int32()), {"types": {"total": "INT"}}, KEPT),
    "no time to live": ("coupon", pa.array(["x", "y", "z"]), {"ttl": "false"}, KEPT),
}  # fmt: skip


@pytest.mark.parametrize("door", list(UPDATES))
@pytest.mark.parametrize("question", list(UPDATED))
def test_an_update(base: Path, tmp_path: Path, question: str, door: str) -> None:
    state, column, options, answer = UPDATED[question]
    rows = pa.table({"key": THREE, state: column})
    if isinstance(answer, str):
        with pytest.raises((SavepointError, RefusedError), match=answer):
            UPDATES[door](base, tmp_path, rows, "op", state, options)
        return
    path = UPDATES[door](base, tmp_path, rows, "op", state, options)
    assert registered(path) == registered(base)
    assert max_parallelisms(path) == {"op": 512}
    before, after = (
        {row["key"]: row for row in pyspark_savepoint.open(one).keyed_state("op", include_ttl=True).rows()}
        for one in (base, path)
    )
    assert {key: row[state] for key, row in after.items() if row[state] is not None} == answer
    assert after[3] == before[3]
    for key in (1, 2):
        own = {name for name in before[key] if not name.startswith(state)}
        assert {name: after[key][name] for name in own} == {name: before[key][name] for name in own}


@pytest.mark.parametrize("door", list(UPDATES))
def test_an_update_with_a_repeated_key(base: Path, tmp_path: Path, door: str) -> None:
    for number, key in enumerate(([1, 1], [1, None])):
        rows = pa.table({"key": pa.array(key, pa.int64()), "total": pa.array([5, None], pa.int64())})
        (tmp_path / str(number)).mkdir()
        with pytest.raises((SavepointError, RefusedError), match=r"more than one row has the same key|NULL"):
            UPDATES[door](base, tmp_path / str(number), rows, "op", "total", {})


@pytest.mark.parametrize("door", list(UPDATES))
def test_an_update_of_operator_state(base: Path, tmp_path: Path, door: str) -> None:
    rates = pa.table({"key": ["USD", "GBP"], "value": pa.array([2.5, 0.75], pa.float32())})
    (tmp_path / "rates").mkdir()
    path = UPDATES[door](base, tmp_path / "rates", rates, "op", "rates", {"table": "operator_state"})
    assert registered(path) == registered(base)
    found = pyspark_savepoint.open(path).broadcast_state("op", "rates").rows()
    assert {row["key"]: row["value"] for row in found} == {"EUR": 1.0, "USD": 2.5, "GBP": 0.75}
    sent = pyspark_savepoint.open(path).list_state("op", "sent").to_arrow()
    assert sent == pyspark_savepoint.open(base).list_state("op", "sent").to_arrow()
    with pytest.raises((SavepointError, RefusedError), match="elements of this state have no keys"):
        UPDATES[door](
            base, tmp_path, pa.table({"value": pa.array([1], pa.int32())}), "op", "sent", {"table": "operator_state"}
        )


def test_keys_that_would_go_need_a_word(base: Path, tmp_path: Path) -> None:
    """Of the command ``put``; the data source says it by its mode, and the verbs by their names."""
    rows = _rows("total").slice(0, 1)
    with pytest.raises(RefusedError, match=r"2 of 3 keys of state 'total' would go(.|\n)*--upsert(.|\n)*--replace"):
        by_command(base, tmp_path, rows, "op", "total", {"replace": False})
    path = by_command(base, tmp_path, rows, "op", "total", {})
    found = pyspark_savepoint.open(path).keyed_state("op", state="total").to_arrow()
    assert found.to_pylist() == [{"key": 1, "total": 10}]


def test_an_empty_list_is_no_value(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys of lists and maps without an element go, and ``put`` counts them so."""
    columns = {"tags": pa.array([[], ["b"], None], TAGS.type), "scores": pa.array([[], [("y", 1)], None], SCORES.type)}
    for state, column in columns.items():
        rows, folder = pa.table({"key": KEYS, state: column}), tmp_path / state
        folder.mkdir()
        with pytest.raises(RefusedError, match=f"2 of 3 keys of state '{state}' would go"):
            by_command(base, folder, rows, "op", state, {"replace": False})
        capsys.readouterr()
        path = by_command(base, folder, rows, "op", state, {})
        assert "2 of 3 keys go" in capsys.readouterr().out
        assert pyspark_savepoint.open(path).keyed_state("op", state=state).to_arrow()["key"].to_pylist() == [2]


@pytest.mark.parametrize("state", ["rates", "sent"])
@pytest.mark.parametrize("door", list(DOORS))
def test_operator_state_keeps_its_kind_and_types(base: Path, tmp_path: Path, state: str, door: str) -> None:
    rows = {"rates": pa.table({"key": ["GBP"], "value": pa.array([0.75], pa.float32())})}
    rows["sent"] = pa.table({"value": pa.array([1], pa.int32())})
    path = DOORS[door](base, tmp_path, rows[state], "op", state, {"table": "operator_state"})
    assert registered(path) == registered(base)
    assert pyspark_savepoint.open(path).operator_state("op", state).to_arrow() == rows[state]


def test_an_overwrite_of_the_whole_operator_keeps_kinds_types_and_times_to_live(base: Path, tmp_path: Path) -> None:
    """Rows of the data source without option ``state``."""
    rows = pa.table({"key": KEYS, **STATES})
    path = Path(shutil.copytree(base, tmp_path / "whole"))

    def overwrite(**options: str) -> Any:
        given = {"path": str(path), "uid": "op", "retention": "0", "drop": "rates,sent", **options}
        plan = plan_write(SavepointWriteOptions.parse(given).request(True), rows.schema)
        commit(plan, [write_rows(plan, 0, rows.to_batches())])
        return dict(registered(path))

    assert overwrite() == BEFORE
    changed = {"coupon": ("VALUE", "TTL<STRING>"), "total": ("REDUCING", "INT")}
    assert overwrite(types='{"coupon": "STRING", "total": "INT"}', drop="*") == BEFORE | changed
    without = {"coupon": ("VALUE", "STRING"), "tags": ("LIST", "LIST<STRING>"), "scores": ("MAP", "MAP<STRING, LONG>")}
    assert overwrite(ttl="false", drop="*") == BEFORE | changed | without


def test_a_removed_time_to_live_stays_removed(base: Path, tmp_path: Path) -> None:
    """Also if rows are given once more before the savepoint is written."""
    changed = pyspark_savepoint.open(base).with_state("op", "coupon", _rows("coupon"), ttl=False)
    changed = changed.with_state("op", "coupon", _rows("coupon").slice(1), replace=True)
    changed.write(tmp_path / "new")
    assert dict(registered(tmp_path / "new"))["coupon"] == ("VALUE", "STRING")


def ask_spark(spark: SparkSession, base: Path, folder: Path) -> None:
    """Ask a few questions of ``df.write``, SQL and ``Savepoint``, which have the answers of the steps below them."""
    frame = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "key LONG, coupon STRING")
    types = json.dumps({"coupon": "STRING"})
    for ttl in (None, "false"):
        answer = ("VALUE", "TTL<STRING>" if ttl is None else "STRING")
        more = {} if ttl is None else {"ttl": ttl}
        path = shutil.copytree(base, folder / f"df-{ttl}")
        options = {"uid": "op", "state": "coupon", "types": types, **more}
        frame.write.format("savepoint").options(**options).mode("overwrite").save(str(path))
        assert dict(registered(path))["coupon"] == answer
        path = shutil.copytree(base, folder / f"sql-{ttl}")
        listed = ", ".join(f"{name} '{text}'" for name, text in {"path": path, **options}.items())
        view = f"CREATE OR REPLACE TEMPORARY VIEW coupons (key LONG, coupon STRING) USING savepoint OPTIONS ({listed}"
        spark.sql(f"{view}, key 'key')")
        spark.sql("INSERT OVERWRITE coupons VALUES (1L, 'a'), (2L, 'b')")
        assert dict(registered(path))["coupon"] == answer
        new = Savepoint.load(spark, str(base)).with_state("op", "coupon", frame, types={"coupon": "STRING"}, **more)
        new.write(str(folder / f"verb-{ttl}"))
        assert dict(registered(folder / f"verb-{ttl}"))["coupon"] == answer
    for by_sql in (False, True):
        path = shutil.copytree(base, folder / f"update-{by_sql}")
        more = spark.createDataFrame([(3, "x"), (4, "y")], "key LONG, coupon STRING")
        if not by_sql:
            more.write.format("savepoint").options(uid="op", state="coupon").mode("append").save(str(path))
        else:
            view = "CREATE OR REPLACE TEMPORARY VIEW coupons (key LONG, coupon STRING) USING savepoint OPTIONS "
            spark.sql(f"{view} (path '{path}', uid 'op', state 'coupon', key 'key')")
            spark.sql("INSERT INTO coupons VALUES (3L, 'x'), (4L, 'y')")
        read = pyspark_savepoint.open(path).keyed_state("op", state="coupon").to_arrow().to_pylist()
        assert {row["key"]: row["coupon"] for row in read} == {1: "a", 2: "b", 3: "x", 4: "y"}
    with pytest.raises(PySparkException, match="in other upper and lower case"):
        frame.withColumnRenamed("coupon", "Coupon").write.format("savepoint").options(uid="op", state="Coupon").mode(
            "overwrite"
        ).save(str(path))


@pytest.mark.spark
def test_with_spark(spark: SparkSession, base: Path, tmp_path: Path) -> None:
    ask_spark(spark, base, tmp_path)


#: A client of Connect has no JVM, so it has a process of its own.
CONNECT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.connector.test_every_door import ask_spark
ask_spark(SparkSession.builder.remote("local[2]").getOrCreate(), Path(sys.argv[1]), Path(sys.argv[2]))
print("asked")
"""


@pytest.mark.spark
@pytest.mark.thorough  # a server of Connect starts
def test_with_connect(base: Path, tmp_path: Path) -> None:
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    # Spark's own word for a server on any free port: another test may have one on the usual port.
    environment = {**os.environ, **python, "SPARK_TESTING": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, str(base), str(tmp_path)], cwd=Path(__file__).parents[2], env=environment,
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["asked"], done.stderr[-3000:]


@pytest.mark.parametrize("release", ["7", "2.99", "1.15", "1.21", "2.x", 2.3])
def test_a_release_that_is_not_known_is_refused_everywhere(
    base: Path, tmp_path: Path, release: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By writes and what rows are written for, checks, migrations, the fields of a job, and commands."""
    savepoint, new = pyspark_savepoint.open(base), tmp_path / "new"
    asked: list[Callable[[], object]] = [
        lambda: savepoint.write(new, flink_version=release),
        lambda: savepoint.with_state("op", "total", _rows("total"), replace=True, flink_version=release),
        lambda: savepoint.with_state("op", "total", _rows("total"), replace=True, types={}, inferred_by=release),
        lambda: savepoint.job(savepoint).check_restore(flink_version=release),
        lambda: savepoint.job({"operators": [], "flinkVersion": release}).check_restore(),
        lambda: savepoint.check_migration(release),
        lambda: savepoint.inspect.report(tmp_path / "page.html", flink_version=release),
        lambda: assert_restores(base, job_of(), flink_version=release),
    ]
    for ask in asked:
        with pytest.raises(SavepointError, match=re.escape(RELEASES)):
            ask()
    if isinstance(release, str):
        parquet.write_table(_rows("total"), tmp_path / "rows.parquet")
        for words in (
            ["put", base, new, "op", tmp_path / "rows.parquet", "total", "--replace"],
            ["check-restore", base, base],
            ["remove", base, new, "op.total"],
            ["migrate", base, new],
        ):
            done = said(capsys, *words, "--flink", release)
            assert (done.code, RELEASES in done.err) == (2, True), done
    assert not new.exists()


def test_the_answer_to_a_misspelt_option_is_an_argument_of_the_door(base: Path) -> None:
    savepoint, rows = pyspark_savepoint.open(base), _rows("total")
    for misspelt, meant in {"typesForm": "types_from", "types_form": "types_from", "keyGrup": "key_group"}.items():
        with pytest.raises(SavepointError, match=f"'{misspelt}', did you mean '{meant}'"):
            savepoint.with_state("op", "total", rows, replace=True, **{misspelt: "x"})  # type: ignore[misc]
    with pytest.raises(SavepointError, match="there is no option 'zzz'; options are uid, uid_hash, operator_name, "):
        savepoint.keyed_state("op", zzz="x")  # type: ignore[call-arg]
    with pytest.raises(SavepointError, match=r"metadata\(\) lists the operators"):
        savepoint.keyed_state("")


@pytest.mark.parametrize("name", list(NAMES))
def test_a_state_may_have_any_name(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is written by each door, read, counted, shown with its times and erased."""
    rows = pa.table({"key": KEYS, name: LONGS, "other": LONGS})
    base = tmp_path / "base"
    pyspark_savepoint.create(max_parallelism=8).with_operator("op", rows, ttl=True).write(base)
    new, options = pa.table({"key": [1], name: [7]}), {"types": {name: "LONG"}}
    found = [{"key": 1, name: 7}]
    for door, write in DOORS.items():
        (tmp_path / door).mkdir()
        state = NAMES[name] if door == "data source" else name
        path = write(base, tmp_path / door, new, "op", state, options)
        savepoint = pyspark_savepoint.open(path)
        assert savepoint.keyed_state("op", state=[name]).to_arrow().to_pylist() == found, door
        assert savepoint.keyed_state("op", state=NAMES[name]).to_arrow().to_pylist() == found, door
        assert dict(registered(path))[name] == ("VALUE", "TTL<LONG>")
    savepoint = pyspark_savepoint.open(base)
    assert [row["entries"] for row in savepoint.inspect.sizes("op", state=[name]).rows()] == [3]
    assert {row["state"] for row in savepoint.inspect.ttl_ages("op").rows()} == {name, "other"}
    assert said(capsys, "show", base, "op", NAMES[name], "--json").code == 0
    assert said(capsys, "diff", base, path, "--json").code == 1
    savepoint.erase([1], to=tmp_path / "erased")
    left = pyspark_savepoint.open(tmp_path / "erased").keyed_state("op").to_arrow()
    assert sorted(left["key"].to_pylist()) == [2, 3]


def test_a_uid_with_the_form_of_a_hash_is_found(base: Path, tmp_path: Path) -> None:
    """As by a job whose uids are hashes of names. The data source writes it as a uid, and all doors find it."""
    uid = "0123456789abcdef" * 2
    path = by_data_source(base, tmp_path, _rows("total"), uid, "total", {})
    assert max_parallelisms(path) == {"op": 512, uid: 512}
    savepoint = pyspark_savepoint.open(path)
    assert savepoint.keyed_state(uid, state="total").to_arrow().num_rows == 3
    changed = savepoint.remove_keys(uid, [1]).write(tmp_path / "changed")
    assert set(changed.keyed_state(uid, state="total").to_arrow()["key"].to_pylist()) == {2, 3}
    assert main(["show", str(path), uid]) == 0


@pytest.mark.parametrize("upper", [False, True])
def test_a_uid_hash_is_no_uid(base: Path, tmp_path: Path, upper: bool) -> None:
    """The data source has an option for it, and refuses it as a uid; the other doors take it. The uid stays."""
    (operator,) = Snapshot.open(str(base)).operators
    uid_hash = operator.operator_id.hex.upper() if upper else operator.operator_id.hex
    for ask in (
        lambda: by_data_source(base, tmp_path, _rows("total"), uid_hash, "total", {}),
        lambda: SnapshotTable.of(SavepointReadOptions.parse({"path": str(base), "uid": uid_hash})),
    ):
        with pytest.raises(SavepointError, match=r"'uid' is the uid hash of an operator(.|\n)*its uid, 'op'"):
            ask()
    shutil.rmtree(tmp_path / "written")
    for door in (by_verb, by_command, update_by_verb):
        (tmp_path / door.__name__).mkdir()
        path = door(base, tmp_path / door.__name__, _rows("total"), uid_hash, "total", {})
        assert max_parallelisms(path) == {"op": 512}
        totals = pyspark_savepoint.open(path).keyed_state(uid_hash, state="total").to_arrow()["total"]
        assert set(totals.to_pylist()) == {10, 20, 30}
    given = {"path": str(shutil.copytree(base, tmp_path / "written")), "uidHash": uid_hash, "state": "total"}
    plan = plan_write(SavepointWriteOptions.parse(given).request(True), _rows("total").schema)
    commit(plan, [write_rows(plan, 0, _rows("total").to_batches())])
    assert max_parallelisms(tmp_path / "written") == {"op": 512}


def test_paths_of_an_argument_may_have_commas(base: Path) -> None:
    with pytest.raises(SavepointError, match=r"names two savepoints(.|\n)*/a,b#op"):
        pyspark_savepoint.open(base).with_state(
            "op", "total", _rows("total"), replace=True, types_from=["/a,b#op", "/c#op"]
        )


def test_a_path_below_a_file_leaves_nothing(base: Path, tmp_path: Path) -> None:
    """Nothing could be written, so nothing may have been left, which a warning would say."""
    file = tmp_path / "file"
    file.write_text("x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SavepointError, match=r"a part of the path is a file, not a folder"):
            pyspark_savepoint.open(base).write(file / "below")
    assert file.read_text() == "x"


# -- what is asked of a snapshot -----------------------------------------------------------------------------

SHOP = Path(__file__).parents[1] / "oracle" / "savepoints" / "shop" / "savepoint"


def said(capsys: pytest.CaptureFixture[str], *words: object) -> Ran:
    """What a command says."""
    return Ran(main([str(word) for word in words]), *capsys.readouterr())


def job_of(state: str = "LONG", **more: Any) -> dict[str, Any]:
    """A job with one operator, of which one state is described."""
    operator = {"uid": "accounts", "key": "LONG", "states": {"total": state}, **more}
    return {"operators": [operator], "javaClasses": ["oracle.Shop$Profile", "oracle.Shop$Tier"]}


#: A job, whether state that no operator takes is allowed, and whether Flink restores the savepoint; None: unknown.
RESTORES: dict[str, tuple[dict[str, Any], bool, bool | None]] = {
    "the same type": (job_of(), True, True),
    "operators are left behind": (job_of(), False, False),
    "another type": (job_of("STRING"), True, False),
    "another max parallelism": (job_of(maxParallelism=64), True, False),
    "no types": ({"operators": [{"uid": "accounts"}]}, True, None),
}


@pytest.mark.parametrize("question", list(RESTORES))
def test_a_restore_has_one_verdict(question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the API with a mapping and with its text, by the command with a file, and by the assertion."""
    job, allowed, answer = RESTORES[question]
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    savepoint = pyspark_savepoint.open(SHOP)
    rows = [
        savepoint.job(one).check_restore(allow_non_restored_state=allowed).to_arrow().to_pylist()
        for one in (job, json.dumps(job))
    ]
    assert rows[0] == rows[1]
    fails = any(row["verdict"] in ("fails", "is misread") for row in rows[0])
    words = ["check-restore", SHOP, file, "--json", *(["--allow-non-restored-state"] if allowed else [])]
    done = said(capsys, *words)
    assert (fails, done.code) == (answer is False, {True: 0, False: 1, None: 3}[answer])
    assert done.records[-1]["restores"] is answer
    if answer:
        assert_restores(SHOP, job, allow_non_restored_state=allowed)
    else:
        with pytest.raises(AssertionError, match="Flink does not restore"):
            assert_restores(SHOP, job, allow_non_restored_state=allowed)


def test_the_job_that_took_a_savepoint_restores_it(capsys: pytest.CaptureFixture[str]) -> None:
    savepoint = pyspark_savepoint.open(SHOP)
    rows = savepoint.job(savepoint).check_restore().to_arrow().to_pylist()
    assert not [row for row in rows if row["verdict"] == "fails"]
    assert said(capsys, "check-restore", SHOP, SHOP).code == 0
    assert_restores(SHOP, savepoint)


def test_sizes_are_the_same_everywhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """By the API, the command, metrics, the numbers of doctor, and the page."""
    savepoint = pyspark_savepoint.open(SHOP)
    grouping: dict[By, tuple[str, ...]] = {"state": (), "subtask": ("subtask",), "key-group": ("subtask", "key_group")}
    for by, more in grouping.items():
        rows = list(savepoint.inspect.sizes(by=by).rows())
        records = said(capsys, "sizes", SHOP, "--by", by, "--json").records
        names = ("operator_uid", "table", "state", *more, "entries", "bytes", "largest", "note")
        assert [[row[name] for name in names] for row in rows] == [[row[name] for name in names] for row in records]
        assert sum(row["bytes"] for row in rows) == sum(row["bytes"] for row in savepoint.table("sizes").rows())
    sizes = {
        (row["operator_uid"], row["table"], row["state"] or ""): [row["entries"], row["bytes"], row["largest"]]
        for row in savepoint.inspect.sizes().rows()
    }
    assert len(sizes) > 10
    metrics = parsed(said(capsys, "metrics", SHOP).out)
    for place, name in enumerate(("state_entries", "state_bytes", "state_largest_entry_bytes")):
        assert metrics[PREFIX + name] == {labels: numbers[place] for labels, numbers in sizes.items()}
    surveyed = Surveys(savepoint).sizes
    assert sorted(sizes.values()) == sorted([one.entries, one.bytes, one.largest] for one in surveyed)
    assert sorted(sizes.values()) == sizes_on_page(savepoint, tmp_path)


def sizes_on_page(savepoint: LocalSavepoint, folder: Path) -> list[list[int]]:
    """Entries, bytes and the largest entry of each state in the report."""
    page = Read(Path(savepoint.inspect.report(folder / "page.html")))
    names = ("entries", "bytes", "largest entry")
    return sorted([int(row[name]) for name in names] for row in page.numbers.get("sizes-1", []) if row)


def test_heaviest_keys_are_the_same_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("operator_uid", "table", "state", "key", "key_group", "entries", "bytes", "rank")
    savepoint = pyspark_savepoint.open(SHOP)
    rows = [tuple(row[name] for name in names) for row in savepoint.inspect.heaviest_keys("accounts", top=3).rows()]
    records = said(capsys, "heaviest", SHOP, "accounts", "--top", 3, "--json").records
    assert len(rows) > 10
    assert sorted(rows, key=repr) == sorted((tuple(row[name] for name in names) for row in records), key=repr)


def test_what_is_wrong_is_the_same_everywhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a savepoint in order, and of one with a damaged file."""
    damaged = Path(shutil.copytree(SHOP, tmp_path / "damaged"))
    largest = max(
        (file for file in damaged.iterdir() if file.name != "_metadata"), key=lambda file: file.stat().st_size
    )
    largest.write_bytes(largest.read_bytes()[:-20])
    names = ("operator_uid", "table", "state", "subtask", "status", "entries", "bytes")
    for path, wrong in ((SHOP, False), (damaged, True)):
        rows = [tuple(row[name] for name in names) for row in pyspark_savepoint.open(path).inspect.verify().rows()]
        done = said(capsys, "verify", path, "--all", "--json")
        assert sorted(rows, key=repr) == sorted((tuple(row[name] for name in names) for row in done.records), key=repr)
        assert ("error" in {row[names.index("status")] for row in rows}, done.code) == (wrong, int(wrong))


#: Snapshots of other kinds; folders of checkpoints stand for their newest one.
OTHER_KINDS = {
    "RocksDB, native": "lab/2.2.1-rocksdb-native/savepoint",
    "RocksDB, incremental": "history/2.3.0-rocksdb-incr/checkpoints",
    "ForSt": "history/2.3.0-forst-incr/checkpoints",
    "changelog": "history/1.20.5-changelog-rocksdb-mat/checkpoints",
    "changelog of user functions": "datastream/udf-changelog-checkpoint-2.3",
    "operator state": "datastream/broadcast-hashmap-checkpoint-2.3",
    "compressed": "lab/2.3.0-hashmap-canonical-compressed/savepoint",
}
WRITTEN_KINDS = ("a time to live", "records in flight and raw state", "1,000 states", "no rows")


def of_kind(kind: str, base: Path, folder: Path) -> Path:
    """A snapshot of a kind: recorded, or written."""
    if kind in OTHER_KINDS:
        path = located(OTHER_KINDS[kind])
        found = sorted(path.rglob("_metadata"), key=lambda file: (len(file.parent.name), file.parent.name))
        return found[-1].parent
    if kind == "a time to live":
        return base
    if kind == "records in flight and raw state":
        return written_base(folder / "whole")
    new, numbers = pyspark_savepoint.create(), range(1000 if kind == "1,000 states" else 1)
    rows = pa.table({"key": KEYS, **{f"s{number}": LONGS for number in numbers}})
    new.with_operator("op", rows if kind == "1,000 states" else rows.slice(0, 0)).write(folder / "new")
    return folder / "new"


@pytest.mark.thorough  # eleven snapshots, each surveyed by eight doors
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*OTHER_KINDS, *WRITTEN_KINDS])
def test_numbers_of_other_kinds_are_the_same_everywhere(
    kind: str, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizes, the heaviest keys and what verify counts: by the API, commands, metrics, doctor and the page."""
    path = of_kind(kind, base, tmp_path)
    savepoint = pyspark_savepoint.open(path, allow_outside=True)

    def records(*words: object) -> list[dict[str, Any]]:
        done = said(capsys, words[0], path, *words[1:], "--allow-outside", "--json")
        assert done.code == 0, done.err
        return done.records

    names = ("operator_uid", "operator_uid_hash", "table", "state", "entries", "bytes", "largest", "note")
    sizes = list(savepoint.inspect.sizes().rows())
    assert [[row[name] for name in names] for row in sizes] == [
        [row[name] for name in names] for row in records("sizes")
    ]
    total = sum(row["bytes"] for row in sizes)
    for by in ("subtask", "key-group"):
        assert sum(row["bytes"] for row in savepoint.inspect.sizes(by=by).rows()) == total  # type: ignore[arg-type]
        assert sum(row["bytes"] for row in records("sizes", "--by", by)) == total
    numbers = sorted([row["entries"], row["bytes"], row["largest"]] for row in sizes)
    assert numbers == sorted([one.entries, one.bytes, one.largest] for one in Surveys(savepoint).sizes)
    metrics = parsed(said(capsys, "metrics", path, "--allow-outside").out)
    for place, name in enumerate(("state_entries", "state_bytes", "state_largest_entry_bytes")):
        series, expected = sorted(metrics.get(PREFIX + name, {}).values()), sorted(row[place] for row in numbers)
        if len(series) == MOST_STATES + 1:  # the smallest are one series
            assert max(series) == max(expected) if place == 2 else sum(series) == sum(expected)
        else:
            assert series == expected
    assert sizes_on_page(savepoint, tmp_path) == numbers
    names = ("operator_uid_hash", "table", "state", "subtask", "status", "entries", "bytes")
    verified = [tuple(row[name] for name in names) for row in savepoint.inspect.verify().rows()]
    assert sorted(verified, key=repr) == sorted(
        (tuple(row[name] for name in names) for row in records("verify", "--all")), key=repr
    )
    names = ("table", "state", "key_group", "entries", "bytes", "rank")
    for uid in {row["operator_uid"] or row["operator_uid_hash"] for row in sizes}:
        heaviest = [tuple(row[name] for name in names) for row in savepoint.inspect.heaviest_keys(uid, top=3).rows()]
        assert sorted(heaviest, key=repr) == sorted(
            (tuple(row[name] for name in names) for row in records("heaviest", uid, "--top", 3)), key=repr
        )


def test_a_state_that_is_not_there_is_refused_by_numbers() -> None:
    """Of one operator and of all: no rows would say that nothing is wrong with it."""
    inspect = pyspark_savepoint.open(SHOP).inspect
    verbs: tuple[Callable[..., Any], ...] = (inspect.sizes, inspect.verify, inspect.heaviest_keys, inspect.ttl_ages)
    for verb in verbs:
        with pytest.raises(SavepointError, match=r"has no state 'totl'(.|\n)*did you mean 'total'"):
            verb("accounts", state="totl")
        for state in ("total", "rates") if verb in verbs[:2] else ("total",):
            assert {row["state"] for row in verb(state=state).rows()} <= {state}
        with pytest.raises(SavepointError, match=r"no operator has a state 'totl'(.|\n)*did you mean 'total'"):
            verb(state="totl")


def test_that_there_is_nothing_to_rank_is_said_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    savepoint = pyspark_savepoint.open(SHOP)
    for verb, words, uid, said_of in (
        (savepoint.inspect.heaviest_keys, "heaviest", "warehouse-export", "has no keyed state"),
        (savepoint.inspect.ttl_ages, None, "warehouse-export", "has no keyed state"),
        (savepoint.inspect.sizes, "sizes", "orders-parser", "has no state"),
    ):
        with pytest.warns(UserWarning, match=rf"operator {uid} .* {said_of}, so no rows are shown"):
            assert list(verb(uid).rows()) == []
        if words is not None:
            assert f"{said_of}, so no rows are shown" in said(capsys, words, SHOP, uid).err


#: Questions of a read that no door answers, by arguments of Python, and what is wrong.
ASKED_WRONGLY: dict[str, tuple[Options, str]] = {
    "an operator that is not there": ({"uid": "acounts"}, "no such operator"),
    "no operator": ({"table": "timers"}, "option 'table' needs an operator"),
    "state of another table": ({"uid": "accounts", "table": "window_state"}, "no window_state"),
    "no timers": ({"uid": "orders-source", "table": "timers"}, "no timers"),
    "a flag": ({"uid": "accounts", "include_key_group": "maybe"}, "expected true or false"),
    "a key that is null": ({"uid": "accounts", "keys": "[null]"}, "has a key that is null"),
    "an option of writes": ({"uid": "accounts", "ttl": "true"}, "it is for what is written"),
}
NOT_OF_READS = {
    "open": re.compile(r"option '[a-z]+[A-Z]|option\('|uidHash|without options|--[a-z]"),
    "SQL": re.compile(r"option '|option\('|without options|--[a-z]|\w+\(uid\)"),
    "data source": re.compile(r"_[a-z]+=|--[a-z]|\w+\(uid\)|=>"),
}


@pytest.mark.parametrize("question", list(ASKED_WRONGLY))
def test_each_door_of_reads_has_its_own_words(question: str) -> None:
    """The table functions and the data source raise in their own process what is raised here."""
    options, wrong = ASKED_WRONGLY[question]
    texts = {"path": str(SHOP), **to_options(options)}

    def by_open() -> None:
        more = dict(options)
        pyspark_savepoint.open(SHOP).table(more.pop("table", "keyed_state"), more.pop("uid", None), **more)

    def by_data_source() -> None:
        SnapshotTable.of(SavepointReadOptions.parse(texts))

    def by_sql() -> None:
        arguments = {name: argument_of(text) for name, text in texts.items()}
        analyzed("savepoint_state", arguments, {})

    for door, ask in {"open": by_open, "SQL": by_sql, "data source": by_data_source}.items():
        with pytest.raises(SavepointError, match=wrong.replace("option", r"(?:option|argument)")) as raised:
            ask()
        assert NOT_OF_READS[door].findall(str(raised.value)) == [], door


def argument_of(text: str | None) -> AnalyzeArgument:
    """A constant of a query."""
    return AnalyzeArgument(StringType(), text, isTable=False, isConstantExpression=True)


def test_arguments_of_table_functions_are_not_null() -> None:
    none, path = argument_of(None), argument_of(str(SHOP))
    with pytest.raises(SavepointError, match=r"argument 'path' of savepoint_state\(\) is NULL"):
        analyzed("savepoint_state", {"path": none}, {})
    with pytest.raises(SavepointError, match=r"argument 'start' of savepoint_changes\(\) is NULL"):
        ChangesFunction.analyze(path, argument_of("accounts"), none)
    with pytest.raises(SavepointError, match="a version is a checkpoint id"):
        ChangesFunction.analyze(path, argument_of("accounts"), argument_of("x"))
    with pytest.raises(SavepointError, match="a path must be a string"):
        list(rows_of(None, "states"))  # type: ignore[arg-type]


WRONG_ASSERTIONS: list[tuple[Callable[[], None], str]] = [
    (lambda: assert_state(SHOP, "acounts", "total", {1: 1}), r"states\(\) lists all operators"),
    (lambda: assert_state(SHOP, "accounts", None, {1: 1}), "a state must be given by its name"),  # type: ignore[arg-type]
    (lambda: assert_state(SHOP, "orders-per-minute", "window-contents", {}), r"window_state\(uid\) has it"),
    (lambda: assert_state(SHOP, "currency-converter", "rates", {}), r"operator_state\(uid\) has its states"),
    (lambda: assert_state(SHOP, "accounts", "total", {}, exact="x"), "is true or false"),  # type: ignore[arg-type]
    (lambda: assert_schema(SHOP, None), "a path must be a string"),  # type: ignore[arg-type]
    (lambda: assert_restores(SHOP, job_of(), flink_version=1.20), "must be given as text"),  # type: ignore[arg-type]
    (
        lambda: assert_restores(SHOP, job_of(), allow_non_restored_state="x"),  # type: ignore[arg-type]
        "is true or false",
    ),
    (lambda: assert_verdict(SHOP, job_of(), "accounts", "okay"), "is not a verdict"),
    (lambda: assert_verdict(SHOP, job_of(), None, "fails"), "names an operator"),  # type: ignore[arg-type]
]


def test_assertions_refuse_what_they_cannot_ask() -> None:
    for assertion, wrong in WRONG_ASSERTIONS:
        with pytest.raises(SavepointError, match=wrong) as raised:
            assertion()
        assert NOT_OF_READS["open"].findall(str(raised.value)) == []
