"""The check of a migration against real Flink: what 2.3 does with states that 1.20.5 wrote, each a job of its own.

Without a migration the outcome must be the one that the check announced; with one, values must be equal, or the check
must have announced a loss.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pyspark_savepoint
from pyspark_savepoint.engines.migrating import migration_of
from pyspark_savepoint.formats.errors import UnsupportedStateError
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import (
    MigrationCheck,
    MigrationVerdict,
    Outcome,
    Stage,
)
from tests.oracle import fleet
from tests.oracle.conftest import failing_in_one_line
from tests.oracle.flink import BACKENDS, PATIENCE, command_line, compile_harness

pytestmark = pytest.mark.flink

WRITER, READER = "1.20.5", "2.3.0"
STAGES = {"restore": Stage.RESTORING, "registration": Stage.REGISTRATION, "access": Stage.ACCESS}
OUTCOMES = {"equal": "restores", "different": "wrong values"}
LOST = ("lost-in-list", "lost-in-map", "lost-in-subclass", "lost-in-either", "lost-in-operator-list")
FORETOLD = ("lost-in-list", "abstract", "as-list-in-list", "raw", "page", "skip-list", "skip-list-texts")
#: A null is read in a field that is primitive.
NULLS = ("raw-texts", "pages", "page-hint")
#: Keys of a class that Kryo writes, and of POJOs with subclasses that have no part of Kryo's.
KEYS = (
    *("key-of-kryo", "timer-of-kryo", "map-key-of-kryo", "key-subclass-plain", "map-key-subclass-plain"),
    *("key-of-uuid", "timer-of-uuid", "map-key-of-uuid"),
)
#: Classes of Java, of which some can be read by no version of Kryo that wrote them.
OF_JAVA = (
    *("map-entry", "string-joiner", "statistics", "atomic-reference-array", "priority-blocking", "time-zone-in-pojo"),
    *("file-in-list", "math-context", "random", "calendar"),
)
UNREADABLE = ("sub-list", "n-copies", "key-set", "descending", "array-blocking-queue", "long-accumulator")
#: A value in each place: a field of Kryo's, one of a POJO, a list of objects.
PLACES = ("held-as-list", "pojo-as-list", "list-as-list", "held-nested", "pojo-text-page", "list-page-of-pages")
#: Subclasses in keys that the snapshot does not list, with a list: Flink 2 infers another serializer for it.
HIDDEN = ("key-subclass-with-list", "timer-subclass-with-list", "map-key-subclass-with-list", "key-compound")
ALL = {*LOST, *FORETOLD, *NULLS, *KEYS, *OF_JAVA, *UNREADABLE, *PLACES, *HIDDEN, "lost-none"}


def run_cases(version: str, backend: str, out: Path, *arguments: str, only: Iterable[str] = ALL) -> dict[str, Any]:
    configuration = {**BACKENDS[backend], **PATIENCE}
    given = [f"--out={out}", "--parallelism=1", f"--only={'|'.join(only)}", *arguments]
    given += [f"--conf={key}={value}" for key, value in configuration.items()]
    out.mkdir()
    subprocess.run(command_line(version, "oracle.Upgrade", given), check=True, capture_output=True, timeout=600)
    results: dict[str, Any] = json.loads((out / "results.json").read_text("utf-8"))
    return results


def migrated(old: Path, new: Path, flink: str = "2.3") -> dict[str, MigrationCheck]:
    """Migrate the savepoints in a folder; return the checks of those that can be."""
    made = {}
    for path in sorted(each for each in old.iterdir() if (each / "_metadata").exists()):
        with suppress(UnsupportedStateError):
            made[path.name] = migration_of(Snapshot.open(str(path)), flink, classes=[compile_harness(WRITER)]).write(
                str(new / path.name)
            )
    return made


@pytest.mark.parametrize(
    ("backend", "form", "restored_by"),
    [("rocksdb-heap-timers", "checkpoint", "rocksdb"), ("hashmap", "native", "hashmap")],
)
def test_keys_of_kryo_are_restored_from_where_values_show_their_ends(
    backend: str, form: str, restored_by: str, tmp_path: Path
) -> None:
    """Timers in raw keyed state, and all state in the hashmap backend's own format, have no lengths."""
    only = [*KEYS, "abstract", "inner-in-pojo-empty"]
    with failing_in_one_line():
        run_cases(WRITER, backend, tmp_path / "old", f"--format={form}", only=only)
        made = migrated(tmp_path / "old", tmp_path / "new")
        after = run_cases(READER, restored_by, tmp_path / "after", f"--in={tmp_path / 'new'}", only=only)
    assert set(made) == set(only)
    lost = {case for case, check in made.items() if any(p.verdict is MigrationVerdict.IS_LOST for p in check.parts)}
    assert {case: result["outcome"] for case, result in after.items()} == {
        case: "different" if case in lost else "equal" for case in only
    }
    assert lost == {"inner-in-pojo-empty"}
    predicted = [part.row() for part in made["timer-of-uuid"].parts if part.outcome is Outcome.FAILS]
    assert {row[restored_by] for row in predicted if row["kind"] == "TIMER"} == {Stage.RESTORING}
    old = pyspark_savepoint.open(tmp_path / "old" / "timer-of-kryo", classes=[compile_harness(WRITER)])
    timers = old.timers("state").to_arrow().sort_by("timestamp")
    assert timers["key"].to_pylist() == [{"number": 1.5, "text": "a"}, {"number": -2.0, "text": "b"}]


def test_losses_and_outcomes_are_those_of_flink(tmp_path: Path) -> None:
    with failing_in_one_line():
        run_cases(WRITER, "hashmap", tmp_path / "old")
        found = {
            backend: run_cases(READER, backend, tmp_path / backend, f"--in={tmp_path / 'old'}")
            for backend in ("hashmap", "rocksdb")
        }
        new = migrated(tmp_path / "old", tmp_path / "new")
        after = run_cases(READER, "hashmap", tmp_path / "after", f"--in={tmp_path / 'new'}")
    assert {case for case, result in after.items() if result["outcome"] != "equal"} == set(LOST)
    assert ALL - new.keys() == {*UNREADABLE, *HIDDEN[:3]}
    for case in ALL:
        source = Snapshot.open(str(tmp_path / "old" / case))
        parts = migration_of(source, "2.3", classes=[compile_harness(WRITER)]).check().parts
        assert any(part.verdict is MigrationVerdict.IS_LOST for part in parts) is (case in LOST), case
        worst = max(parts, key=lambda part: part.outcome.severity).row()
        for backend, results in found.items():
            result = results[case]
            if case in HIDDEN:
                assert worst[backend] in ("unknown", "wrong values or fails")
                assert result["outcome"] != "equal"
                continue
            assert worst[backend] == (OUTCOMES.get(result["outcome"]) or STAGES[result["stage"]]), (case, result)


#: What goes back to Flink 1: keys of Kryo's, POJOs in lists and maps, what Kryo 2 cannot read, and does not keep.
BACK = (*KEYS, "lost-none", "held-nested", "pojo-text-page", "map-entry", "skip-list", "held-uuid")
NEVER_READ = ("held-list-of", "pojo-set-of", "held-anonymous-list")
#: Without its id.
NOT_KEPT = ("zone-offset",)
#: Flink 1.20 makes no objects of Java's own subclasses on Java 17.
NOT_MADE = ("time-zone-in-pojo",)


def test_what_flink_2_wrote_is_restored_by_flink_1(tmp_path: Path) -> None:
    only = (*BACK, *NEVER_READ, *NOT_KEPT, *NOT_MADE)
    with failing_in_one_line():
        run_cases(READER, "hashmap", tmp_path / "old", only=only)
        made = migrated(tmp_path / "old", tmp_path / "new", "1.20")
        after = run_cases(WRITER, "hashmap", tmp_path / "after", f"--in={tmp_path / 'new'}", only=only)
    assert set(made) == {*BACK, *NOT_KEPT, *NOT_MADE}
    lost = {case for case, check in made.items() if any(p.verdict is MigrationVerdict.IS_LOST for p in check.parts)}
    assert lost == set(NOT_KEPT)
    assert {case for case, result in after.items() if result["outcome"] == "equal"} >= set(BACK)
    for case in NOT_MADE:
        assert after[case]["outcome"] == "failed"
        assert any("NullPointerException" in str(part.reason) for part in made[case].parts)


#: Which keys a vehicle has: numbers, UUIDs of Kryo's, and texts, of which some end with half of a surrogate pair.
VEHICLES = ("vehicles", "vehicles-by-id", "vehicles-by-name")
COUNTS = ("counts-by-id", "counts-by-name")


def rows_of(savepoint: Path, uid: str, classes: Path) -> dict[int, dict[str, Any]]:
    """The rows of an operator of `oracle.Fleet`, by the number that the source gave; lists of Kryo's are lists."""
    found = {}
    for row in pyspark_savepoint.open(savepoint, classes=[str(classes)]).keyed_state(uid).rows():
        number = (row["before"] if uid in VEHICLES else row["count"]) - 1
        assert number not in found, number
        found[number] = json.loads(json.dumps(row, default=repr))
    return found


@pytest.mark.filterwarnings("ignore:.*half of a surrogate pair")
@pytest.mark.parametrize(
    ("backend", "form", "readers"),
    [
        ("hashmap", "native", ["2.3.0/hashmap", "2.2.1/hashmap"]),
        ("rocksdb", "native", ["2.3.0/rocksdb"]),
        ("rocksdb", "canonical", ["2.3.0/rocksdb", "2.2.1/rocksdb", "2.3.0/hashmap"]),
    ],
)
def test_subclasses_of_pojos_that_no_job_registers_are_restored(
    backend: str, form: str, readers: list[str], tmp_path: Path
) -> None:
    """Of a subclass with a list, which Flink 2 writes otherwise, in keyed state with all kinds of keys."""
    classes = compile_harness(WRITER)
    with failing_in_one_line():
        old = fleet.again(WRITER, tmp_path / "old", backend, form, None, 60, 2)
        before = {uid: rows_of(old, uid, classes) for uid in (*VEHICLES, *COUNTS)}
        trailers = [row for row in before["vehicles"].values() if row["vehicle"]["stops"] is not None]
        assert trailers
        for reader in readers:
            version, on = reader.split("/")
            new = tmp_path / reader
            migration_of(Snapshot.open(str(old)), version, classes=[classes]).write(str(new / "migrated"))
            after = fleet.again(version, new / "run", on, "canonical", new / "migrated", 80, 3)
            for uid, rows in before.items():
                found = rows_of(after, uid, compile_harness(version))
                assert sorted(found) == list(range(80))
                assert {number: found[number] for number in rows} == rows, (reader, uid)
            left = pyspark_savepoint.open(after)
            for uid in (*VEHICLES, *COUNTS):
                times = left.timers(uid).to_arrow()["timestamp"].to_pylist()
                assert sorted(times) == [1_000_000 + number for number in range(80)]
            assert left.operator_state("texts", "kept").to_arrow().num_rows == 80
