"""A job of real Flink: its subtasks met different subclasses of POJOs, its texts have half of a surrogate pair."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyspark_savepoint
from pyspark_savepoint import Savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import SavepointError, SavepointWarning, UndecodableStateError, ValueRangeError
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.formats.serializers.base import TypeSerializer, write_enveloped
from pyspark_savepoint.formats.serializers.kryo.described.job_classes import JobClasses
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from pyspark_savepoint.statebackends.types.pojo_subclasses import ClassFileSubclasses
from pyspark_savepoint.statebackends.types.unify import merge_registrations, merge_serializers
from pyspark_savepoint.statebackends.writing.planning.edited_header import KeyedStates
from tests.oracle import fleet

pytestmark = pytest.mark.many_sets

VEHICLES = ("vehicles", "vehicles-by-id", "vehicles-by-name")
ESCAPE = "\U0010ffff"


@pytest.fixture(scope="module")
def rescaled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of RocksDB, taken after a restore with another parallelism."""
    return fleet.unpacked("2.3.0-rocksdb", tmp_path_factory.mktemp("fleet")) / "savepoint"


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a savepoint in hashmap's own format, whose snapshots lack the subclasses, and of class files."""
    return fleet.unpacked("1.20.5-hashmap-native", tmp_path_factory.mktemp("fleet"))


def expected_class(number: int, row: dict[str, Any]) -> bool:
    """Return whether a vehicle is of a class that the job makes of a number (see ``Fleet.vehicle``)."""
    name = row["__class"].removeprefix("oracle.Fleet$")
    if name == "Trailer":
        return number >= 40 and row["axles"] == 2 and row["stops"] == [number]
    if number % 4 == 0:
        return bool(name == "Vehicle")
    return bool(name == "Truck" and row["axles"] == number % 5) or (name == "Bus" and row["electric"] is not None)


@pytest.mark.parametrize("uid", VEHICLES)
def test_values_of_all_subclasses_are_read(rescaled: Path, uid: str) -> None:
    rows = list(pyspark_savepoint.open(rescaled).keyed_state(uid, text="replace").rows())
    assert sorted(row["before"] - 1 for row in rows) == list(range(60))
    for row in rows:
        number, vehicle = row["before"] - 1, row["vehicle"]
        assert expected_class(number, vehicle), row
        assert vehicle == row["fleet"][0] == row["depot"]["first"] == row["depot"]["all"][0] == row["plates"][0][1]
        load = vehicle["load"]
        assert (load is None) == (number % 5 == 0)
        assert load is None or load["weight"] == number * 10
        assert load is None or load["crates"] == number or load["liters"] == number / 2


def test_serializers_of_subtasks_are_united_at_any_depth(rescaled: Path) -> None:
    snapshot = Snapshot.open(rescaled)
    for uid in VEHICLES:
        opened = OpenOperator(snapshot, snapshot.operator(uid=uid))
        states = KeyedStates.of(opened)
        for name in ("vehicle", "fleet", "plates", "depot"):
            metas = opened.keyed.metas()[name, False]
            assert len({meta.value_serializer for meta in metas}) > 1  # or the file proves nothing
            one = states.metas[name, False]
            assert merge_registrations([*metas, one]) == merge_registrations([one]) == one
            for text in ("Bus", "Truck", "Trailer", "Crates", "Liquid"):
                assert f"Fleet${text} " in one.value_serializer.flink_type
        text, number = (opened.keyed.metas()[name, False][0] for name in ("vehicle", "before"))
        assert merge_serializers([text.value_serializer, number.value_serializer]) is None


@pytest.mark.thorough("values of all subclasses, and class files")
def test_a_migration_back_and_forth_is_checked(rescaled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-migration", str(rescaled), "--flink", "2.3.0"]) == 0
    assert "as is" in capsys.readouterr().out
    main(["check-migration", str(rescaled), "--flink", "1.20.5"])
    assert "different serializers" not in "".join(capsys.readouterr())


@pytest.mark.thorough("values of all subclasses, and class files")
def test_a_migration_back_and_forth_gives_the_same_values(
    rescaled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A subclass that only some subtasks met has a list, which Kryo of 1.20 writes otherwise."""
    classes = ["--classes", str(rescaled.parent / "classes")]
    back, forth = str(tmp_path / "back"), str(tmp_path / "forth")
    assert main(["migrate", str(rescaled), back, "--flink", "1.20.5", *classes]) == 0
    assert main(["migrate", back, forth, "--flink", "2.3.0", *classes]) == 0
    capsys.readouterr()
    assert main(["diff", str(rescaled), back]) == 1
    assert "20 of 33 states differ" in capsys.readouterr().out  # Trailer's stops are Kryo's, and other keys of UUID
    assert main(["diff", str(rescaled), forth]) == 0
    assert "0 of 33 states differ" in capsys.readouterr().out
    old, new = (
        sorted(pyspark_savepoint.open(path).keyed_state("vehicles").rows(), key=lambda row: row["before"])
        for path in (rescaled, back)
    )
    changed = 0
    for before, after in zip(old, new, strict=True):
        stops = [row["vehicle"].pop("stops") for row in (before, after)]
        assert after["vehicle"] == before["vehicle"]
        assert (stops[0] is None) == (stops[1] is None)
        if stops[0] is not None:
            assert json.loads(stops[1]) == stops[0]
            changed += 1
    assert changed == 3


@pytest.mark.thorough("values of all subclasses, and class files")
def test_subclasses_that_no_snapshot_lists_are_rewritten(
    native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list of a subclass is all that changes in its state."""
    savepoint, classes = str(native / "savepoint"), ["--classes", str(native / "classes")]
    assert main(["check-migration", savepoint, "--flink", "2.3"]) == 1
    told = capsys.readouterr().out
    assert "24 as is, 2 rewritten, 17 needs" in told
    assert "classes" in told.splitlines()[-2]
    assert main(["migrate", savepoint, str(tmp_path / "new"), "--flink", "2.3"]) == 2
    assert not (tmp_path / "new").exists()
    assert main(["migrate", savepoint, str(tmp_path / "new"), "--flink", "2.3", *classes]) == 0
    trailers = 0
    for uid in VEHICLES:
        old, new = (
            pyspark_savepoint.open(path).keyed_state(uid, classes=str(native / "classes")).rows()
            for path in (savepoint, tmp_path / "new")
        )
        before, after = (sorted((row["before"], row["fleet"]) for row in rows) for rows in (old, new))
        assert before == after
        trailers += sum(vehicle["stops"] is not None for _, fleet in after for vehicle in fleet)
    assert trailers == 1


def test_healthy_files_verify(rescaled: Path, native: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for savepoint in (rescaled, native / "savepoint"):
        assert main(["verify", str(savepoint)]) == 0
        assert "0 errors" in capsys.readouterr().out


@pytest.mark.parametrize("uid", VEHICLES)
def test_a_subclass_that_hides_what_follows_is_no_damage(native: Path, uid: str) -> None:
    with pytest.raises(UndecodableStateError, match="only the job's own serializer can delimit") as caught:
        pyspark_savepoint.open(native / "savepoint").keyed_state(uid).to_arrow()
    assert caught.value.facts["found"].startswith("oracle.Fleet$")


def texts_of(savepoint: Path, **options: Any) -> pa.Table:
    return pyspark_savepoint.open(savepoint).keyed_state("counts-by-name", **options).to_arrow()


def test_half_of_a_surrogate_pair_is_escaped_and_named(rescaled: Path, native: Path) -> None:
    for savepoint, count in ((rescaled, 60), (native / "savepoint", 40)):
        with pytest.warns(SavepointWarning, match=r"rows? .*counts-by-name.*number 3 .*d83d") as caught:
            rows = texts_of(savepoint).to_pylist()
        assert len(caught) == 1
        assert len(rows) == count
        wrong = {row["count"] - 1 for row in rows if ESCAPE in row["key"]}
        assert wrong == set(range(3, count, 7))
        for row in rows:
            number = row["count"] - 1
            text = f"number {number}" + {3: f" {ESCAPE}d83d", 5: " \U0001f69a"}.get(number % 7, "")
            assert row["key"] == row["text"] == row["texts"][0] == row["lengths"][0][0] == text


def test_option_text(rescaled: Path) -> None:
    with pytest.warns(SavepointWarning, match=r"U\+FFFD, which writes do not turn back"):
        rows = texts_of(rescaled, text="replace").to_pylist()
    assert Counter(row["key"][-1] == "\ufffd" for row in rows) == {False: 51, True: 9}
    with pytest.raises(ValueRangeError, match="half of a surrogate pair") as caught:
        texts_of(rescaled, text="error")
    assert 'option("text", "escape")' in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*half of a surrogate pair")
def test_such_a_key_is_looked_up(rescaled: Path) -> None:
    for wanted in ('["number 3 \\ud83d"]', [f"number 3 {ESCAPE}d83d"]):
        assert texts_of(rescaled, keys=wanted).column("count").to_pylist() == [4]


@pytest.mark.filterwarnings("ignore:.*half of a surrogate pair")
def test_operator_state_and_timers_have_such_texts(rescaled: Path) -> None:
    sp = pyspark_savepoint.open(rescaled)
    values = sp.operator_state("texts", "kept").to_arrow().column("value").to_pylist()
    assert sum(value.endswith(f"{ESCAPE}d83d") for value in values) == 9
    keys = sp.timers("counts-by-name").to_arrow().column("key").to_pylist()
    assert sum(key.endswith(f"{ESCAPE}d83d") for key in keys) == 9


@pytest.mark.slow  # many queries
def test_edits_keep_such_texts_and_all_subclasses(spark: SparkSession, rescaled: Path, tmp_path: Path) -> None:
    sp = Savepoint.load(spark, rescaled)
    states = sp.keyed_state("counts-by-name").select("key", "texts")
    vehicles = sp.keyed_state("vehicles-by-id").select("key", "depot")
    sp = sp.with_state("counts-by-name", "texts", states).with_state("vehicles-by-id", "depot", vehicles)
    sp.remove_keys("vehicles", keys=[3]).write(tmp_path / "out")
    before, after = (pyspark_savepoint.open(path) for path in (rescaled, tmp_path / "out"))
    for uid, state in (("counts-by-name", "texts"), ("counts-by-name", "text"), ("vehicles-by-id", "depot")):
        found = [one.keyed_state(uid, raw=["key", state]).select("key", state).to_arrow() for one in (before, after)]
        assert found[0].sort_by("key") == found[1].sort_by("key"), state
    kept = [one.keyed_state("vehicles").to_arrow().sort_by("before") for one in (before, after)]
    assert kept[1].to_pylist() == [row for row in kept[0].to_pylist() if row["key"] != 3]


@pytest.mark.parametrize("uid", VEHICLES)
def test_class_files_describe_the_subclasses_that_a_snapshot_lacks(native: Path, uid: str) -> None:
    opened = pyspark_savepoint.open(native / "savepoint", classes=str(native / "classes"))
    rows = list(opened.keyed_state(uid, text="replace").rows())
    assert sorted(row["before"] - 1 for row in rows) == list(range(40))
    assert len({row["vehicle"]["__class"] for row in rows}) == 3
    for row in rows:
        number, vehicle = row["before"] - 1, row["vehicle"]
        assert row["later"] == number + 2
        assert expected_class(number, vehicle), row
        assert vehicle == row["fleet"][0] == row["depot"]["first"] == row["depot"]["all"][0] == row["plates"][0][1]
        load = vehicle["load"]
        assert (load is None) == (number % 5 == 0)
        assert load is None or load["weight"] == number * 10
        assert load is None or load["crates"] == number or load["liters"] == number / 2
    timers = opened.timers(uid, text="replace").to_arrow()
    assert sorted(timers["timestamp"].to_pylist()) == [1_000_000 + each for each in range(40)]


@pytest.mark.thorough("values of all subclasses, and class files")
def test_edits_beside_such_subclasses_use_the_class_files(native: Path, tmp_path: Path) -> None:
    """They were read, and each edit failed with the remedy that had been followed."""
    classes = str(native / "classes")
    sp = pyspark_savepoint.open(native / "savepoint", classes=classes)
    more = pa.table({"key": [3, 500], "later": [1, 2]})
    edited = sp.rename_state("vehicles", "depot", "depots").with_state("vehicles", "later", more, replace=True)
    edited = edited.remove_keys("vehicles", keys=[5]).with_max_parallelism(333)
    edited.write(tmp_path / "edited", portable=True)
    found = pyspark_savepoint.open(tmp_path / "edited", classes=classes)
    before = {row["key"]: row for row in sp.keyed_state("vehicles").rows()}
    after = {row["key"]: row for row in found.keyed_state("vehicles").rows()}
    assert set(after) == (set(before) - {5}) | {500}
    for key in set(before) - {5}:
        expected = {**before[key], "depots": before[key]["depot"], "later": 1 if key == 3 else None}
        assert after[key] == {name: value for name, value in expected.items() if name != "depot"}
    vehicles = sp.keyed_state("vehicles", state="vehicle")
    with pytest.raises(SavepointError, match="the fields of column 'vehicle' are not those of its type"):
        sp.with_state("vehicles", "vehicle", vehicles)
    differences = [row for row in sp.diff(found).rows() if row["added"] or row["removed"] or row["changed"]]
    assert {row["operator_uid_hash"] for row in differences} == {uid_hash("vehicles")}


def test_edits_with_spark_use_the_class_files(spark: SparkSession, native: Path, tmp_path: Path) -> None:
    classes = str(native / "classes")
    sp = Savepoint.load(spark, native / "savepoint", classes=classes)
    sp.remove_keys("vehicles-by-id", keys=[]).remove_state("vehicles", "later").write(tmp_path / "out")
    before, after = (
        sorted(pyspark_savepoint.open(path, classes=classes).keyed_state("vehicles").rows(), key=lambda row: row["key"])
        for path in (native / "savepoint", tmp_path / "out")
    )
    assert after == [{name: value for name, value in row.items() if name != "later"} for row in before]


def uid_hash(uid: str) -> str:
    return OperatorID.from_uid(uid).hex


def snapshot_bytes(serializer: TypeSerializer) -> bytes:
    view = DataOutputView()
    write_enveloped(serializer, view)
    return view.getvalue()


def test_inferred_subclasses_enter_no_snapshot(native: Path, rescaled: Path) -> None:
    classes = JobClasses.of((str(native / "classes"),), subclasses=ClassFileSubclasses((str(native / "classes"),)))
    for savepoint in (native / "savepoint", rescaled):
        plain, described = (Snapshot.open(str(savepoint), classes=each) for each in (None, classes))
        for uid in VEHICLES:
            before, after = (
                OpenOperator(each, each.operator(uid=uid)).keyed.metas()["vehicle", False][0].value_serializer
                for each in (plain, described)
            )
            assert len({member.name for member in after.subclasses}) == len(after.subclasses) == 3
            assert snapshot_bytes(after) == snapshot_bytes(before)
            assert after.flink_type == before.flink_type


def test_what_a_snapshot_describes_is_read_as_before(native: Path, rescaled: Path) -> None:
    plain, described = (
        sorted(
            pyspark_savepoint.open(rescaled, **options).keyed_state("vehicles").rows(), key=lambda row: row["before"]
        )
        for options in ({}, {"classes": str(native / "classes")})
    )
    assert described == plain


def test_a_jar_without_the_subclass_leaves_the_message(native: Path, tmp_path: Path) -> None:
    folder = tmp_path / "oracle"
    folder.mkdir()
    shutil.copy(native / "classes" / "oracle" / "Fleet$Vehicle.class", folder)
    with pytest.raises(UndecodableStateError, match="only the job's own serializer can delimit") as caught:
        pyspark_savepoint.open(native / "savepoint", classes=str(tmp_path)).keyed_state("vehicles").to_arrow()
    assert caught.value.facts["found"].startswith("oracle.Fleet$")
    assert "option 'classes'" in caught.value.facts["remedy"]
