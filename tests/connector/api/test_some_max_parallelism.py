"""Max parallelism of some operators: others keep theirs, and all their files byte for byte."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.errors import OperatorNotFoundError, OptionError, UndecodableStateError, UnsupportedStateError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from tests.connector.api.test_update_state import entries_of
from tests.connector.command_line.conftest import Run
from tests.connector.command_line.conftest import run as run
from tests.data import unpacked
from tests.statebackends.writing.whole_operator import written_base


@pytest.fixture(scope="module")
def lab() -> Path:
    """A savepoint of real Flink, one of whose operators has keys that only its job can hash."""
    (found,) = (unpacked() / "lab" / "2.2.1-rocksdb-native").rglob("_metadata")
    return found.parent


def test_an_operator_that_blocks_is_left_as_it_is(lab: Path, tmp_path: Path) -> None:
    base = pyspark_savepoint.open(lab)
    with pytest.raises(UndecodableStateError, match=r"with_max_parallelism\(n, operators=\[\.\.\.\]\) keeps"):
        base.with_max_parallelism(512)
    new = base.with_max_parallelism(512, operators=["kv-long", "window-session"]).write(tmp_path / "new")
    for before, after in zip(base.plan.operators, new.plan.operators, strict=True):
        chosen = before.identifier.uid in ("kv-long", "window-session")
        assert after.max_parallelism == (512 if chosen else before.max_parallelism)
    assert len(entries_of(new, "kv-long")) == len(entries_of(base, "kv-long"))
    groups = {row["key_group"] for row in new.keyed_state("kv-long", include_key_group=True).rows()}
    assert max(groups) > 127
    written = {hashlib.sha256(path.read_bytes()).digest() for path in new_files(tmp_path / "new")}
    for operator in Snapshot.open(str(lab)).operators:
        if operator.uid not in ("kv-long", "window-session"):
            for row in base.table("files", operator.uid or str(operator.operator_id)).rows():
                if row["path"] and row["folder"] == "own":
                    data = Path(row["path"].removeprefix("file:")).read_bytes()
                    assert hashlib.sha256(data).digest() in written


def new_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_operators_that_are_added_later_get_what_most_have(lab: Path) -> None:
    base = pyspark_savepoint.open(lab)
    rows = pa.table({"key": [1], "n": [1]})
    some = base.with_max_parallelism(512, operators=["kv-long"]).with_operator("new", rows)
    assert (
        some.plan.operator("new").max_parallelism
        == base.with_operator("new", rows).plan.operator("new").max_parallelism
    )


def test_raw_keyed_state_and_records_in_flight_name_what_leaves_them(tmp_path: Path) -> None:
    path = written_base(tmp_path / "sp")
    base = pyspark_savepoint.open(path)
    uid = base.plan.operators[0].identifier
    with pytest.raises(UnsupportedStateError, match=r"raw keyed state(.|\n)*operators=\[\.\.\.\]\) keeps it as it is"):
        base.with_max_parallelism(64)
    two = base.with_operator("two", pa.table({"key": [1], "n": [1]}))
    new = two.with_max_parallelism(64, operators=["two"])
    assert new.plan.operator("two").max_parallelism == 64
    assert new.plan.operator(uid).max_parallelism == base.plan.operator(uid).max_parallelism
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("operators", "error", "text"),
    [
        (["acounts"], OperatorNotFoundError, "did you mean 'accounts'"),
        ("accounts", OptionError, "operators are given as a list"),
        ([], OptionError, "no operator is named"),
    ],
)
def test_wrong_names(shop: Path, operators: list[str] | str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        pyspark_savepoint.open(shop).with_max_parallelism(256, operators=operators)


def test_hashes_of_an_operator_that_stays(shop: Path) -> None:
    hashes = {"accounts": pa.table({"key": [1], "hash_code": [1]})}
    with pytest.raises(OptionError, match="whose max parallelism stays"):
        pyspark_savepoint.open(shop).with_max_parallelism(256, operators=["orders-per-minute"], key_hashes=hashes)


def test_the_command(run: Run, shop: Path, lab: Path, tmp_path: Path) -> None:
    done = run(
        "set-max-parallelism", shop, tmp_path / "new", 256, "--operators", "accounts", "orders-per-minute", "--json"
    )
    assert (done.code, done.err) == (0, "")
    told = {row["operator"]: row["to"] for row in done.records[:-1]}
    assert told == dict.fromkeys(("accounts", "orders-per-minute"), "256, from 128")
    found = {row["operator_uid"]: row["operator_max_parallelism"] for row in run_rows(tmp_path / "new")}
    assert found.pop("accounts") == found.pop("orders-per-minute") == 256
    assert set(found.values()) == {128}
    done = run("set-max-parallelism", lab, tmp_path / "none", 256)
    assert done.code == 2
    assert "set-max-parallelism OLD NEW N --operators UID" in done.err


def run_rows(path: Path) -> list[dict[str, object]]:
    return list(pyspark_savepoint.open(path).metadata().rows())
