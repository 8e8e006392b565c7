"""Tables without Spark: the rows that Spark reads, in a process that can import neither Spark nor pandas."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint.errors import (
    OperatorNotFoundError,
    OptionError,
    SavepointError,
    SnapshotNotFoundError,
    StateNotFoundError,
)

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
BLOCKED = """
import importlib.abc
import json
import sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import pyspark_savepoint
sp = pyspark_savepoint.open(sys.argv[1])
states = sp.states().to_arrow()
accounts = sp.keyed_state("accounts", state="total", keys=[1042]).to_arrow().to_pylist()
timers = sp.timers("accounts").to_arrow().num_rows
print(json.dumps([states.num_rows, accounts, timers]))
"""


def test_a_table_of_all_snapshots_below_a_folder(tmp_path: Path) -> None:
    for number in (1, 2):
        shutil.copytree(SHOP, tmp_path / f"chk-{number}")
    (tmp_path / "chk-3").mkdir()
    (tmp_path / "chk-3" / "_metadata").write_bytes(b"damaged")
    accounts = pyspark_savepoint.open_history(tmp_path, "accounts", state="total").to_arrow()
    assert accounts.schema.names == ["checkpoint_id", "snapshot", "key", "total"]
    assert accounts.num_rows == 400
    assert set(accounts["snapshot"].to_pylist()) == {str(tmp_path / "chk-1"), str(tmp_path / "chk-2")}
    assert pyspark_savepoint.open_history(tmp_path, "accounts", last=1, state="total").to_arrow().num_rows == 200
    metadata = pyspark_savepoint.open_history(tmp_path)
    assert list(metadata.rows()) == metadata.to_arrow().to_pylist()
    assert metadata.schema.names.count("checkpoint_id") == 1
    with pytest.raises(OperatorNotFoundError, match="none of 2") as raised:
        pyspark_savepoint.open_history(tmp_path, "acounts")
    assert "'accounts'" in raised.value.facts["remedy"]
    with pytest.raises(SnapshotNotFoundError, match="can be read"):
        pyspark_savepoint.open_history(tmp_path / "chk-3")


@pytest.fixture(scope="module")
def shop() -> pyspark_savepoint.LocalSavepoint:
    return pyspark_savepoint.open(SHOP)


def test_neither_spark_nor_pandas_is_needed() -> None:
    command = [sys.executable, "-W", "ignore", "-c", BLOCKED, str(SHOP)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    states, accounts, timers = json.loads(done.stdout)
    assert states > 10
    assert accounts[0]["key"] == 1042
    assert timers > 0


@pytest.mark.parametrize(
    "options",
    [
        {"table": "states"},
        {"table": "metadata"},
        {"table": "sizes", "uid": "accounts"},
        {"uid": "accounts"},
        {"uid": "accounts", "table": "timers", "parallelism": 3},
        {"uid": "accounts", "keys": [1042, 1043], "state": "total", "include_key_group": True},
        {"uid": "accounts", "state": "recent_amounts", "flatten": True},
    ],
)
@pytest.mark.filterwarnings("ignore::pyspark_savepoint.formats.errors.SavepointWarning")
def test_the_rows_are_those_of_spark(
    spark: SparkSession, shop: pyspark_savepoint.LocalSavepoint, options: dict[str, object]
) -> None:
    ours = shop.table(**options) if "table" not in options else shop.table(options.pop("table"), **options)  # type: ignore[arg-type]
    asked = {
        name: getattr(ours.options, name) for name in ("table", "uid", "state", "keys") if getattr(ours.options, name)
    }
    reader = spark.read.format("savepoint").options(**asked)
    if "flatten" in options:
        reader = reader.option("flatten", "true")
    if "include_key_group" in options:
        reader = reader.option("includeKeyGroup", "true")
    theirs = reader.load(str(SHOP)).toArrow()
    assert theirs.schema.names == ours.schema.names

    def rows(table: pa.Table) -> list[str]:
        return sorted(repr(row) for row in table.to_pylist())

    assert rows(ours.to_arrow()) == rows(theirs)


def test_columns_are_chosen_before_they_are_decoded(shop: pyspark_savepoint.LocalSavepoint) -> None:
    table = shop.keyed_state("accounts").select("total", "key")
    assert table.schema.names == ["total", "key"]
    assert table.to_arrow().schema == table.schema
    with pytest.raises(OptionError, match="did you mean 'total'"):
        table.select("totl")


def test_batches_are_as_large_as_asked(shop: pyspark_savepoint.LocalSavepoint) -> None:
    sizes = [len(batch) for batch in shop.keyed_state("accounts", batch_size=7).batches()]
    assert max(sizes) == 7
    assert sum(sizes) == shop.keyed_state("accounts").to_arrow().num_rows


@pytest.mark.parametrize("table", [{"name": "states"}, {"name": "metadata"}, {"uid": "accounts"}, {"name": "sizes"}])
def test_rows_are_those_of_arrow(shop: pyspark_savepoint.LocalSavepoint, table: dict[str, str]) -> None:
    opened = shop.table(**table)
    assert list(opened.rows()) == opened.to_arrow().to_pylist()


def test_arrow_streams_and_pandas(shop: pyspark_savepoint.LocalSavepoint) -> None:
    table = shop.keyed_state("accounts").select("key", "total")
    assert pa.RecordBatchReader.from_stream(table).read_all() == table.to_arrow()
    assert list(table.to_pandas().columns) == ["key", "total"]


def test_options_of_the_snapshot_apply_to_the_tables_that_have_them() -> None:
    opened = pyspark_savepoint.open(SHOP, raw="total")
    assert opened.keyed_state("accounts").schema.field("total").type == pa.binary()
    assert opened.states().to_arrow().num_rows > 10


def test_what_cannot_be_honoured_is_refused(shop: pyspark_savepoint.LocalSavepoint, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no option 'kyes', did you mean 'keys'"):
        shop.keyed_state("accounts", kyes=[1])
    with pytest.raises(OptionError, match="option 'keys' cannot apply to table 'states'"):
        shop.table("states", keys=[1])
    with pytest.raises(OptionError, match="raw"):
        shop.keyed_state("accounts", raw="totl")
    with pytest.raises(OptionError, match="out of the range of the operator's key groups"):
        shop.keyed_state("accounts", key_groups="100-128")
    with pytest.raises(OperatorNotFoundError, match="did you mean 'accounts'"):
        shop.keyed_state("acounts")
    with pytest.raises(StateNotFoundError, match="did you mean 'total'"):
        shop.keyed_state("accounts", state="totl")
    with pytest.raises(SnapshotNotFoundError):
        pyspark_savepoint.open(tmp_path)
    with pytest.raises(OptionError, match=r"pathlib\.Path"):
        pyspark_savepoint.open(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda sp, _: pyspark_savepoint.open(" "), "must not be empty"),
        (lambda sp, _: sp.operator_state("accounts", "total"), "read table 'keyed_state'"),
        (lambda sp, _: sp.states().select(["state"]), "select('key', 'total')"),
        (lambda sp, _: sp.check_migration("2"), "release is not known"),
        (lambda sp, _: sp.check_migration(2.3), "to 2.3, such as '1.20'"),
        (lambda sp, _: sp.check_migration("2.3", classes=["/jobs/nothing.jar"]), "/jobs/nothing.jar"),
        (lambda sp, new: sp.sources.with_offsets("orders-source", offsets=[("orders", 0, 5)]).write(new), "by split"),
        (lambda sp, new: sp.sources.with_offsets("orders-source", offsets=5).write(new), "rows of Arrow"),
        (lambda sp, new: sp.sources.with_offsets("accounts", by=1).write(new), "not a source"),
        (lambda sp, _: pyspark_savepoint.diff(SHOP, sp), "pyspark_savepoint.open(path)"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, mistake: Any, told: str) -> None:
    with pytest.raises(SavepointError) as refused:
        mistake(pyspark_savepoint.open(SHOP), tmp_path / "new")
    assert told in str(refused.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("blocked", "told"),
    [
        ("pyspark", "needs PySpark 4.0 or later, and PySpark is not installed"),
        ("pyspark.sql.datasource", "needs PySpark 4.0 or later, and PySpark 4"),  # what PySpark 3.5 does not have
    ],
)
def test_pyspark_that_is_missing_or_too_old(blocked: str, told: str) -> None:
    names = "Savepoint", "OperatorTransformation", "register", "SavepointDataSource"
    script = BLOCKED.replace('name.partition(".")[0] in ("pyspark", "py4j", "pandas")', f"name == {blocked!r}")
    script = script.replace(
        "raise ModuleNotFoundError(name)", 'raise ModuleNotFoundError(f"No module named {name!r}", name=name)'
    )
    script = script[: script.index("sp = pyspark_savepoint.open")]
    for name in names:
        script += f"try:\n    pyspark_savepoint.{name}\nexcept ImportError as error:\n    print(error)\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert all(line.startswith(f"pyspark_savepoint.{name} {told}") for name, line in zip(names, lines, strict=True))
    assert all("pip install" in line and "pyspark_savepoint.open" in line for line in lines)


def test_methods_that_need_spark_say_what_does_without() -> None:
    savepoint = pyspark_savepoint.open(SHOP)
    with pytest.raises(AttributeError, match=r"Savepoint.load\(spark, path\)"):
        savepoint.create_tables()  # type: ignore[attr-defined]
    assert copy.deepcopy(savepoint) == savepoint


def test_pandas_is_needed_for_its_frames_only(monkeypatch: pytest.MonkeyPatch) -> None:
    states = pyspark_savepoint.open(SHOP).states()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OptionError, match="pip install pandas"):
        states.to_pandas()


def test_arguments_in_another_order_say_which_comes_first() -> None:
    savepoint = pyspark_savepoint.open(SHOP)
    with pytest.raises(OptionError, match=r"to do: table\('timers', 'accounts'\)"):
        savepoint.table("accounts", "timers")
    with pytest.raises(OperatorNotFoundError, match="name the operator first, then the state"):
        savepoint.operator_state("total", "accounts")
    with pytest.raises(OptionError, match="give options by name"):
        savepoint.table("heaviest_keys", 5)  # type: ignore[arg-type]
    with pytest.raises(StateNotFoundError, match=r"states\(\) lists what the snapshot has"):
        savepoint.operator_state("accounts", 5)  # type: ignore[arg-type]


def test_tables_are_shown_in_one_line() -> None:
    """What the table is, its operator and columns, and where it is: no internal options."""
    savepoint = pyspark_savepoint.open(SHOP)
    assert repr(savepoint.keyed_state("accounts", state="total")) == (
        f"<LocalTable keyed_state of 'accounts' state 'total': 2 columns (key, total) in {SHOP}>"
    )
    assert repr(savepoint.states()).startswith("<LocalTable states: 16 columns (operator_uid, operator_uid_hash, ")
