"""Flink ignores bytes after the metadata; it disposes of a savepoint with checksums, but not of one with an extra file.

That it restores them is shown wherever Flink restores what this package wrote: all of that has checksums.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyspark_savepoint.formats.metadata import read_metadata
from pyspark_savepoint.formats.metadata.manifest import with_manifest
from tests.oracle.flink import FlinkError, SavepointOf, run

pytestmark = pytest.mark.flink


def test_flink_disposes_of_a_savepoint_with_checksums(
    flink_version: str, savepoint_of: SavepointOf, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(savepoint_of(flink_version, "types").path, tmp_path / "savepoint"))
    metadata = folder / "_metadata"
    plain = metadata.read_bytes()
    metadata.write_bytes(with_manifest(plain, {}))
    assert metadata.stat().st_size > len(plain)

    operators = int(run(flink_version, "oracle.Dispose", [folder.as_uri()]))

    assert operators == len(read_metadata(plain).operators)
    assert not folder.exists()


def test_a_file_beside_it_would_stay_behind(flink_version: str, savepoint_of: SavepointOf, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(savepoint_of(flink_version, "types").path, tmp_path / "savepoint"))
    (folder / "checksums.json").write_text("{}")

    with pytest.raises(FlinkError, match="is not empty"):
        run(flink_version, "oracle.Dispose", [folder.as_uri()])

    assert [file.name for file in folder.iterdir()] == ["checksums.json"]
