"""Real Flink begins a job anew in the folder of its fixed id: what it leaves of the start before, and the order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_savepoint.formats.snapshot.as_of import newest_of
from tests.oracle.flink import run

pytestmark = pytest.mark.flink

JOB = "0" * 32


def begun(version: str, out: Path, until: int, *, backend: str) -> Path:
    """Run the job from its beginning until a checkpoint has an id, and return the folder of its checkpoints."""
    (out / "tmp").mkdir(parents=True, exist_ok=True)
    settings = {
        "state.backend.type": backend,
        "state.backend.incremental": "true",
        "execution.checkpointing.incremental": "true",
        "state.storage.fs.memory-threshold": "1b",
        "execution.checkpointing.data-inline-threshold": "1b",
        "state.checkpoints.num-retained": "3",
        "execution.checkpointing.num-retained": "3",
        "execution.checkpointing.tolerable-failed-checkpoints": "100",
    }
    given = [f"--conf={name}={value}" for name, value in settings.items()]
    run(version, "oracle.Anew", [f"--job={JOB}", f"--until={until}", f"--out={out}", "--parallelism=1", *given])
    return out / "checkpoints" / JOB


def ids(folder: Path) -> list[int]:
    return sorted(int(metadata.parent.name.removeprefix("chk-")) for metadata in folder.glob("chk-*/_metadata"))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_what_is_left_of_an_earlier_start_has_higher_ids(flink_version: str, tmp_path: Path, backend: str) -> None:
    folder = begun(flink_version, tmp_path, 8, backend=backend)
    first = ids(folder)
    assert len(first) == 3

    # Its ids are below all that are there.
    folder = begun(flink_version, tmp_path, 3, backend=backend)
    second = sorted({*ids(folder)} - {*first})
    assert ids(folder) == [*second, *first]
    newest = newest_of(str(folder))
    assert [one.number for one in newest.history] == second
    assert any(f"name {folder / f'chk-{first[-1]}'}" in warning for warning in newest.warnings)

    # It has passed them all: its checkpoints of these ids failed, and Flink deleted the folders.
    folder = begun(flink_version, tmp_path, first[-1] - 1, backend=backend)
    third = ids(folder)
    assert not {*third} & {*first, *second}
    newest = newest_of(str(folder))
    assert [one.number for one in newest.history] == third
    assert newest.warnings == ()
