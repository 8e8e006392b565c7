"""The check of a migration against real Flink: what 2.3 does with states that 1.20.5 wrote, each a job of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.execution.migrating import migration_of
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot
from pyspark_savepoint.statebackends.migration.rewriting.verdicts import MigrationVerdict, Stage
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
KEYS = ("key-of-kryo", "timer-of-kryo", "map-key-of-kryo", "key-subclass-plain", "map-key-subclass-plain")
#: Subclasses in keys that the snapshot does not list, with a list: Flink 2 infers another serializer for it.
HIDDEN = ("key-subclass-with-list", "timer-subclass-with-list", "map-key-subclass-with-list", "key-compound")
ALL = {*LOST, *FORETOLD, *NULLS, *KEYS, *HIDDEN, "lost-none"}


def run_cases(version: str, backend: str, out: Path, *arguments: str) -> dict[str, Any]:
    configuration = {**BACKENDS[backend], **PATIENCE}
    given = [f"--out={out}", "--parallelism=1", f"--only={'|'.join(ALL)}", *arguments]
    given += [f"--conf={key}={value}" for key, value in configuration.items()]
    out.mkdir()
    subprocess.run(command_line(version, "oracle.Upgrade", given), check=True, capture_output=True, timeout=600)
    results: dict[str, Any] = json.loads((out / "results.json").read_text("utf-8"))
    return results


def test_losses_and_outcomes_are_those_of_flink(tmp_path: Path) -> None:
    with failing_in_one_line():
        run_cases(WRITER, "hashmap", tmp_path / "old")
        found = {
            backend: run_cases(READER, backend, tmp_path / backend, f"--in={tmp_path / 'old'}")
            for backend in ("hashmap", "rocksdb")
        }
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
