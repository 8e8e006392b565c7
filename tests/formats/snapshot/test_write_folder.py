"""Which folders a savepoint is written to: one that is a savepoint, or new, or empty."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.errors import OptionError, StateExistsError
from pyspark_savepoint.formats.snapshot.publication import Staging, expect_folder

SHOP = Path(__file__).parents[2] / "oracle" / "savepoints" / "shop" / "savepoint"
OTHERS = {
    "a Delta table": ["_delta_log/00000000000000000000.json", "part-00000.snappy.parquet"],
    "an Iceberg table": ["metadata/v1.metadata.json", "data/00000-0.parquet"],
    "a Hudi table": [".hoodie/hoodie.properties", "2024/x.parquet"],
    "Parquet files": ["part-00000.snappy.parquet", "_SUCCESS"],
    "the output of a job": ["part-00000.csv", "_SUCCESS"],
    "the output of a streaming query": ["_spark_metadata/0", "part-00000.csv"],
    "a folder of snapshots": ["chk-7/_metadata", "shared/x"],
    "a snapshot without its file _metadata": ["f0e953fb-98ce-4680-a238-e652d02bf01e"],
    "other files": ["notes.txt"],
}
#: What writes that failed, or the system, leave.
NOBODYS = [".pending-0123456789ab/x", "0123456789ab-copy-1", "._metadata.0123456789ab", ".DS_Store", "lost+found/x"]


def make(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


@pytest.mark.parametrize("kind", OTHERS)
def test_a_folder_of_something_else_is_refused(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    make(folder, OTHERS[kind])
    before = sorted(folder.rglob("*"))
    with pytest.raises(StateExistsError) as raised:
        expect_folder(Staging.at(str(folder)))
    assert kind in raised.value.facts["found"]
    assert str(folder / "savepoint-new") in raised.value.facts["remedy"]
    assert main(["cp", str(SHOP), str(folder)]) == 2
    assert sorted(folder.rglob("*")) == before


def test_metadata_of_iceberg_that_is_compressed(tmp_path: Path) -> None:
    for name in ("v1.gz.metadata.json", "v1.metadata.json.gz", "00000-4c1f.metadata.json"):
        make(tmp_path / name, [f"metadata/{name}", "data/00000-0.orc"])
        with pytest.raises(StateExistsError) as raised:
            expect_folder(Staging.at(str(tmp_path / name)))
        assert raised.value.facts["found"] == "an Iceberg table: data/, metadata/"


def test_a_new_or_empty_folder_and_a_savepoint(tmp_path: Path) -> None:
    assert expect_folder(Staging.at(str(tmp_path / "new"))) == (False, None)
    assert expect_folder(Staging.at(str(tmp_path))) == (True, None)
    make(tmp_path, NOBODYS)
    assert expect_folder(Staging.at(str(tmp_path))) == (True, None)
    assert expect_folder(Staging.at(str(SHOP))) == (True, (SHOP / "_metadata").read_bytes())
    copied = tmp_path / "copied"
    shutil.copytree(SHOP, copied)
    make(copied, OTHERS["Parquet files"])
    assert expect_folder(Staging.at(str(copied)))[1] is not None
    with pytest.raises(OptionError, match="there is a file at this path"):
        expect_folder(Staging.at(str(SHOP / "_metadata")))


def test_many_names_are_not_all_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, [f"part-{number}.parquet" for number in range(50)])
    monkeypatch.setattr("pyspark_savepoint.formats.snapshot.publication.LOOKED_AT", 7)
    with pytest.raises(StateExistsError) as raised:
        expect_folder(Staging.at(str(tmp_path)))
    assert raised.value.facts["found"].endswith("and 2 more")
