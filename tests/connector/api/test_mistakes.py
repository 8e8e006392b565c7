"""Mistakes that users make with ``open`` and its tables: one short block, with what is wrong and the nearest name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.errors import SavepointError

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
NO_COLUMNS = pa.table({})
Mistake = Callable[[LocalSavepoint], Any]


def accounts(**options: Any) -> Mistake:
    return lambda savepoint: savepoint.keyed_state("accounts", **options).to_arrow()


def table(name: str, **options: Any) -> Mistake:
    return lambda savepoint: savepoint.table(name, **options).to_arrow()  # type: ignore[arg-type]


def opened(path: Any, **options: Any) -> Mistake:
    return lambda _: pyspark_savepoint.open(path, **options).states()


def history(folder: Any, *arguments: Any, **options: Any) -> Mistake:
    return lambda _: pyspark_savepoint.open_history(folder, *arguments, **options)


MISTAKES: list[tuple[Mistake, str]] = [
    # operators, states, columns
    (lambda savepoint: savepoint.keyed_state("acounts"), "did you mean 'accounts'?"),
    (lambda savepoint: savepoint.keyed_state("Accounts"), "did you mean 'accounts'?"),
    (lambda savepoint: savepoint.keyed_state(" "), "uid must not be empty"),
    (
        lambda _: pyspark_savepoint.create().with_list_state("op", "sent", NO_COLUMNS),
        "add it first: with_operator(uid)",
    ),
    (lambda _: pyspark_savepoint.create().with_operator("op", NO_COLUMNS), "rows without a column"),
    (lambda savepoint: savepoint.keyed_state(5), "the operator is a string"),  # type: ignore[arg-type]
    (lambda savepoint: savepoint.keyed_state("total", state="accounts"), "no such operator"),
    (lambda savepoint: savepoint.keyed_state("accounts").select("totl"), "did you mean 'total'?"),
    (lambda savepoint: savepoint.keyed_state("accounts").select(["total"]), "select('key', 'total')"),  # type: ignore[arg-type]
    (accounts(state="totals"), "did you mean 'total'?"),
    (table("timers"), "name it by its uid; states() lists all operators"),
    (table("timer", uid="accounts"), "did you mean 'timers'?"),
    (table("keyedState", uid="accounts"), "did you mean 'keyed_state'"),
    (table("window_state", uid="accounts"), "keyed_state(uid) has its states"),
    (table("operator_state", uid="accounts", state="total"), "read table 'keyed_state'"),
    (table("operator_state", uid="warehouse-export"), "name one of 'exported_until', 'pending_orders'"),
    (table("keyed_state", uid="accounts", uid_hash="0" * 32), "give one of them"),
    (table("keyed_state", uid_hash="accounts"), "give it as option 'uid'"),
    # keys and numbers
    (accounts(keys=1042), "a JSON list of keys, such as [1, 2]"),
    (accounts(keys=["x"]), "expected: int64"),
    (accounts(keys=[1.5]), "found: 1.5"),
    (accounts(keys={"key": 1}), "a JSON list of keys"),
    (accounts(keys=[b"x"]), "decode() the bytes"),
    (accounts(keys=[object()]), "option 'keys' has a value that is no text"),
    (accounts(keys=[pa.array([1042])]), "option 'keys' has a value that is no text"),
    (accounts(key_groups=b"5"), "option 'key_groups' has a value that is no text"),
    (accounts(state=[b"total"]), "decode() the bytes"),
    (accounts(state=object()), "option 'state' has a value that is no text"),
    (accounts(keys=[None]), "has a key that is null"),
    (accounts(key_groups="0-999"), "0 to 127"),
    (accounts(key_groups="9-3"), "such as 0-31,77"),
    (accounts(parallelism=0), "a whole number from 1"),
    (accounts(batch_size=-1), "a whole number from 1"),
    (accounts(memory="64 megabytes"), "such as 64m"),
    (accounts(memory=0), "such as 64m"),
    (table("heaviest_keys", top=0), "a whole number from 1"),
    # options
    (accounts(include_ttls=True), "there is no option 'include_ttls', did you mean 'include_ttl'"),
    (accounts(includeTtls=True), "there is no option 'includeTtls', did you mean 'include_ttl'"),
    (accounts(time_stamps="raw"), "did you mean 'timestamps'"),
    (accounts(clases="x.jar"), "did you mean 'classes'"),
    (accounts(key=[1]), "did you mean 'keys'"),
    (accounts(flatten="yes"), "expected true or false"),
    (accounts(flatten=True), "name it with option 'state'"),
    (accounts(timestamps="millis"), "did you mean 'micros'?"),
    (accounts(decimals="big"), "precision and scale, such as 38,18"),
    (accounts(kryo=3), "expected auto or 2 or 5"),
    (accounts(raw="totl"), "did you mean 'total'?"),
    (accounts(uids=["accounts"]), "'uids' is for states, metadata"),
    (accounts(checksums="on"), "expected ignore or verify or require"),
    (accounts(checksums="require"), "only this package writes checksums"),
    (accounts(py_types="total LNG"), "expected a type of PyFlink"),
    (accounts(field_names="plan.json"), "a compiled plan, or names by column"),
    (accounts(field_names='{"x": ["a"]}'), "there are 'profile'"),
    (accounts(serializers="mine"), "text cannot hold serializers"),
    (accounts(classes="/nowhere/job.jar"), "no jar or folder of class files"),
    (table("splits", uid="orders-source", connector="kafak"), "did you mean 'kafka'?"),
    (table("in_flight", uid="accounts", record_types="LONG"), "types by input and output"),
    (opened(SHOP, timestmps="raw"), "did you mean 'timestamps'"),
    (lambda savepoint: savepoint.changes("accounts", start="now"), "found: 'now'"),
    (lambda savepoint: savepoint.with_operator("n", [{"id": 1}], key="id"), "pyarrow.Table.from_pylist"),  # type: ignore[arg-type]
    # paths
    (opened(""), "must not be empty"),
    (lambda savepoint: savepoint.write(""), "must not be empty"),
    (opened(None), "a string or a pathlib.Path"),
    (opened(SHOP.with_name("savepiont")), "did you mean 'savepoint'?"),
    (opened(f"{SHOP}*"), "did you mean 'savepoint'?"),
    (opened(SHOP.parent), "give the path of one of them"),
    (opened(SHOP.parent / "expected.json"), "the folder of a savepoint or checkpoint"),
    (opened(next(path for path in SHOP.iterdir() if path.name != "_metadata")), "or its _metadata file"),
    (opened("C:\\savepoints\\one"), "this is a Windows path"),
    (opened("http://host/savepoint"), "a scheme among"),
    (opened("s3://"), "s3://bucket/folder"),
    (opened("s3://bucket/x", storage_options={"regoin": "x"}), "did you mean 'region'"),
    (opened("s3://bucket/x", storage_options="region=x"), "is not a JSON object"),
    # history
    (history(SHOP.parent, last=0), "at least 1"),
    (history(SHOP.parent, last="3"), "found: '3'"),
    (history(SHOP.parent, "acounts"), "did you mean 'accounts'?"),
    (history(SHOP.parent, tabel="offsets"), "did you mean 'table'"),
]


@pytest.fixture(scope="module")
def savepoint() -> LocalSavepoint:
    return pyspark_savepoint.open(SHOP)


@pytest.mark.parametrize(("mistake", "told"), MISTAKES, ids=[told for _, told in MISTAKES])
def test_a_mistake(savepoint: LocalSavepoint, mistake: Mistake, told: str) -> None:
    with pytest.raises(SavepointError) as raised:
        mistake(savepoint)
    said = str(raised.value)
    assert told in said
    lines = said.splitlines()
    assert len(lines) <= 6
    assert all(line.startswith("  ") for line in lines[1:])
    assert "Traceback" not in said


def test_methods_that_a_table_lacks(savepoint: LocalSavepoint) -> None:
    with pytest.raises(AttributeError, match=r"'LocalTable' object has no attribute 'show'; rows are read by to_arrow"):
        savepoint.keyed_state("accounts").show()
    with pytest.raises(TypeError, match=r"a table has no items; select\(...\) takes columns"):
        savepoint.keyed_state("accounts")["total"]


def test_what_a_savepoint_lacks(savepoint: LocalSavepoint) -> None:
    with pytest.raises(TypeError, match=r"a savepoint has no items; tables are read by keyed_state\(uid\)"):
        savepoint["accounts"]
    with pytest.raises(AttributeError, match=r"no attribute 'accounts'; tables are read by keyed_state\(uid\)"):
        savepoint.accounts.show()
    with pytest.raises(AttributeError, match=r"no attribute 'keyed_sate'; did you mean 'keyed_state'\?"):
        savepoint.keyed_sate("accounts")
    with pytest.raises(AttributeError, match=r"'create_tables'; it needs Spark: Savepoint.load\(spark, path\)"):
        savepoint.create_tables("shop")
    with pytest.raises(AttributeError, match=r"no attribute 'show'; did you mean states\(\).to_arrow\(\), metadata"):
        savepoint.show()


def test_a_folder_without_snapshots(tmp_path: Path) -> None:
    with pytest.raises(SavepointError, match="there is no snapshot below this folder") as raised:
        pyspark_savepoint.open_history(tmp_path)
    assert "folders with a file _metadata" in str(raised.value)


def test_only_names_that_hold_snapshots_are_suggested(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    (tmp_path / "hope").symlink_to(SHOP)
    with pytest.raises(SavepointError) as raised:
        pyspark_savepoint.open(tmp_path / "ope")
    assert "did you mean 'hope'?" in str(raised.value)
    assert "opt" not in str(raised.value).partition("to do:")[2].partition("did you")[2]


def test_a_missing_file_hides_no_states_and_says_what_to_do(tmp_path: Path) -> None:
    """All subtasks have the same states: those whose file is there show them."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    files = sorted(SHOP.iterdir(), key=lambda path: path.stat().st_size)
    for path in files[:-1]:
        (damaged / path.name).write_bytes(path.read_bytes())
    (damaged / "_metadata").write_bytes((SHOP / "_metadata").read_bytes())
    gone = next(path for path in files if not (damaged / path.name).exists())
    rows = [row for row in pyspark_savepoint.open(damaged).states().rows() if row["operator_uid"] == "accounts"]
    assert {row["state"] for row in rows} >= {"total", "profile", "coupon"}
    (note,) = (row["note"] for row in rows if row["state"] is None)
    assert f"file: {damaged / gone.name}" in note
    assert "copy the file there again" in note


def test_a_deleted_file_of_a_moved_checkpoint_is_missing(tmp_path: Path) -> None:
    """It is not outside of the snapshot: its folder was moved along, and has other files."""
    moved = tmp_path / "moved"
    source = SHOP.parents[1] / "changelog" / "checkpoints"
    for path in source.rglob("*"):
        if path.is_file() and "taskowned" not in path.parts:
            target = moved / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    checkpoint = next(moved.rglob("_metadata")).parent
    (checkpoint.parent / "taskowned").mkdir()
    notes = [str(row["note"]) for row in pyspark_savepoint.open(checkpoint).table("verification").rows()]
    assert any("a file of the snapshot is missing" in note and "taskowned" in note for note in notes)


@pytest.mark.parametrize("uid", ["Accounts", "accounts "])
def test_a_new_uid_that_is_nearly_another_is_a_warning(uid: str) -> None:
    savepoint = pyspark_savepoint.open(SHOP)
    rows = pa.table({"key": [1], "total": [1]})
    with pytest.warns(UserWarning, match=f"the new operator '{uid}' is not 'accounts', which the savepoint has"):
        savepoint.with_operator(uid, rows)
    savepoint.remove_operator("accounts").with_operator(uid, rows)
    savepoint.with_operator("account", rows)
