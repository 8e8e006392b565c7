"""VARIANT without Spark is JSON text on every door, and its exact bytes where they are written."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.errors import OptionError
from pyspark_savepoint.formats.snapshot.savepoint import find_snapshots
from pyspark_savepoint.formats.variant import Date, variant_array
from tests.connector.command_line.conftest import Run, run  # noqa: F401 (a fixture)
from tests.data import located

#: Of a job of PyFlink 1.20: 20 keys, whose `v_pickled` has the largest `i` of 281 to 299 and 280.
PICKLED = {"uid_hash": "43487588459d4ffdd9542da2da8250dd"}


@pytest.fixture(scope="module")
def pyflink() -> str:
    return find_snapshots(str(located("real/pyf-120/sp")))[0].path


@pytest.fixture
def variants(tmp_path: Path) -> LocalSavepoint:
    """A state of Flink 2.1's own VARIANT."""
    values = variant_array([{"day": Date(19782), "price": Decimal("1.50")}, [1, "x", None]], 100)
    rows = pa.table({"id": [1, 2], "doc": values, "n": [10, 20]})
    sp = pyspark_savepoint.create(max_parallelism=4)
    sp = sp.with_operator("docs", rows, key="id", types={"doc": "VARIANT"}, flink_version="2.1")
    return pyspark_savepoint.open(sp.write(tmp_path / "variants").path)


def test_pickles_are_json_text_of_arrow(pyflink: str) -> None:
    state = pyspark_savepoint.open(pyflink).table("keyed_state", state="v_pickled,list_pickled", **PICKLED)
    assert state.schema.field("v_pickled").type == pa.string()
    assert state.schema.field("list_pickled").type == pa.list_(pa.string())
    rows = {row["key"]: row for row in state.to_arrow().to_pylist()}
    assert json.loads(rows["k1"]["v_pickled"]) == {
        "b": "0001", "big": 28100000000000000000000, "d": "2020-01-01T00:00:41", "dec": 1.5, "i": 281,
        "l": [1, "x", None, 2.5, True], "n": {"a": [{"key": 1, "value": 2}]}, "t": [281, "y"],
    }  # fmt: skip
    assert rows["k1"]["list_pickled"][:2] == ['{"e": 1}', '{"e": 21}']
    assert {row["v_pickled"] for row in state.rows()} == {row["v_pickled"] for row in rows.values()}


def test_frames_of_pandas_have_texts(pyflink: str) -> None:
    pytest.importorskip("pandas")
    state = pyspark_savepoint.open(pyflink).table("keyed_state", state="v_pickled", **PICKLED)
    assert sorted(json.loads(text)["i"] for text in state.to_pandas()["v_pickled"]) == list(range(280, 300))


def test_commands_show_json(run: Run, pyflink: str, tmp_path: Path) -> None:  # noqa: F811
    place = (pyflink, PICKLED["uid_hash"], "--columns", "key,v_pickled,list_pickled")
    assert '{"e": 1}' in run("show", *place, "--keys", "k1").out
    (record,) = run("show", *place, "--keys", "k1", "--json").records
    assert (record["v_pickled"]["i"], record["v_pickled"]["dec"], record["list_pickled"][1]) == (281, 1.5, {"e": 21})
    for form in ("json", "csv"):
        assert run("export", *place, "--format", form, "--file", tmp_path / form).code == 0
    lines = [json.loads(line) for line in (tmp_path / "json").read_text().splitlines()]
    assert next(line for line in lines if line["key"] == "k1") == record
    assert '"{""b"": ""0001"", ""big"": 28100000000000000000000,' in (tmp_path / "csv").read_text()


def test_objects_of_kryo_are_json() -> None:
    path = find_snapshots(str(located("lab/2.2.1-hashmap-canonical/savepoint")))[0].path
    (row, *_) = pyspark_savepoint.open(path).keyed_state("kv-kryo").rows()
    texts = [value for value in row.values() if isinstance(value, str) and value.startswith("[")]
    assert texts
    assert all(isinstance(json.loads(text), list) for text in texts)


def test_a_table_of_the_savepoint_is_written_with_its_exact_bytes(variants: LocalSavepoint, tmp_path: Path) -> None:
    table = variants.keyed_state("docs")
    assert [row["doc"] for row in table.rows()] == ['{"day": "2024-02-29", "price": 1.50}', '[1, "x", null]']
    exact = variants.keyed_state("docs", variants="variant").to_arrow()
    for number, given in enumerate((table.select("key", "doc"), exact.select(["key", "doc"]))):
        written = variants.with_state("docs", "doc", given).write(tmp_path / str(number))
        assert written.keyed_state("docs", variants="variant").to_arrow().equals(exact)
    assert list(variants.diff(written, "docs").rows()) == []


def test_json_is_not_written_as_a_variant(variants: LocalSavepoint, run: Run, tmp_path: Path) -> None:  # noqa: F811
    texts = variants.keyed_state("docs").to_arrow().select(["key", "doc"])
    with pytest.raises(OptionError, match="'doc' is no VARIANT, which is not written from JSON"):
        variants.with_state("docs", "doc", texts).write(tmp_path / "new")
    lines = tmp_path / "docs.jsonl"
    lines.write_text('{"key": 1, "doc": [1, 2]}\n')
    put = run("put", variants.path, tmp_path / "new", "docs", lines, "--key", "key")
    assert put.code == 2
    assert "'doc' is no VARIANT, which is not written from JSON" in put.err
    assert not (tmp_path / "new").exists()


def test_a_damaged_variant_is_named(tmp_path: Path) -> None:
    values = variant_array([{"a": 1}], 100)
    damaged = pa.StructArray.from_arrays(
        [pa.array([b"\x02"], pa.binary()), values.field("metadata")], fields=list(values.type)
    )
    sp = pyspark_savepoint.create(max_parallelism=4).with_operator(
        "docs", pa.table({"id": [1], "doc": damaged}), key="id", types={"doc": "VARIANT"}, flink_version="2.1"
    )
    written = pyspark_savepoint.open(sp.write(tmp_path / "new").path)
    with pytest.raises(pyspark_savepoint.errors.CorruptStateError, match=r"cannot be shown as JSON(.|\n)*'variants'"):
        written.keyed_state("docs").to_arrow()
    assert written.keyed_state("docs", variants="variant").to_arrow()["doc"][0].as_py()["value"] == b"\x02"
