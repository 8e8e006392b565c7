"""Real Flink continues at the positions of a changed source: a number sequence 0 to 399 that was stopped half way.

``python -m tests.oracle.flink run VERSION oracle.Numbers`` runs it by hand. The Kafka and file sources are not among
the jars of Flink that the tests download.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.formats.errors import SavepointWarning
from pyspark_savepoint.formats.metadata import CheckpointMetadata, OperatorState, write_metadata
from pyspark_savepoint.formats.snapshot.changes import assemble
from pyspark_savepoint.formats.snapshot.savepoint import Snapshot, find_snapshots
from pyspark_savepoint.statebackends.connectors.connector_states import SourceState
from pyspark_savepoint.statebackends.connectors.edits.sources import (
    add_splits,
    remove_splits,
    start_over,
    with_offsets,
)
from pyspark_savepoint.statebackends.sources.open_operator import OpenOperator
from tests.oracle.flink import run

pytestmark = pytest.mark.flink

SOURCE = "e5a72f353fc1e6bbf3bd96a41384998c"
#: Another one than that of the savepoints, so that Flink moves splits.
PARALLELISM = 3
#: The savepoint that a release restores: the newest that is not newer.
CASES = {"1": "1.20.5-seq", "2": "2.3.0-seq"}


def with_source(savepoint: Snapshot, changed: OperatorState) -> CheckpointMetadata:
    others = [changed if operator.operator_id.hex == SOURCE else operator for operator in savepoint.operators]
    metadata = savepoint.metadata
    return assemble(others, [metadata], metadata.version)


def test_numbers_go_on_where_they_should(flink_version: str, corpus: Path, tmp_path: Path) -> None:
    if tuple(map(int, flink_version.split(".")[:2])) < (1, 18):
        pytest.skip("operator state of the savepoints is in a form that came with 1.18")
    folder = corpus / "connectors" / CASES[flink_version.partition(".")[0]]
    savepoint = Snapshot.open(find_snapshots(str(folder))[0].path)
    opened = OpenOperator(savepoint, savepoint.operator(uid_hash=SOURCE))
    source = SourceState.read(opened)
    at = {split.value.split_id: split.value.next for split in source.splits}
    first, second = range(at["1"], 200), range(at["2"], 400)
    changed = {
        "as it was": (source.written(), [*first, *second]),
        "moved": (with_offsets(source, {"1": 50, "2": 390}).source.written(), [*range(50, 200), *range(390, 400)]),
        "added": (
            add_splits(source, [{"split_id": "3", "next": 1000, "to": 1010}]).source.written(),
            [*first, *second, *range(1000, 1011)],
        ),
        "removed": (remove_splits(source, ["2"], None).source.written(), [*first]),
        "started over": (start_over(opened), [*range(400)]),
    }
    snapshots = []
    for number, (operator, _) in enumerate(changed.values()):
        path = tmp_path / str(number)
        path.mkdir()
        (path / "_metadata").write_bytes(write_metadata(with_source(savepoint, operator)))
        snapshots.append(path.as_uri())

    opened_alone = pyspark_savepoint.open(savepoint.path)
    with pytest.warns(SavepointWarning, match="read again"):
        written = opened_alone.sources.with_offsets(offsets={"1": 60, "2": 395}).write(tmp_path / "moved")
    changed["moved, by a savepoint of its own"] = (source.written(), [*range(60, 200), *range(395, 400)])
    snapshots.append(Path(written.path).as_uri())
    run(
        flink_version,
        "oracle.Numbers",
        [f"--snapshots={','.join(snapshots)}", f"--out={tmp_path}", f"--parallelism={PARALLELISM}"],
    )

    found = dict(zip(changed, json.loads((tmp_path / "found.json").read_text()), strict=True))
    assert found == {name: expected for name, (_, expected) in changed.items()}
