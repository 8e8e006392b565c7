"""Which folders a savepoint is written to: one that is a savepoint, or new, or empty."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.main import main
from pyspark_savepoint.errors import OptionError, OutputError, StateExistsError
from pyspark_savepoint.formats.snapshot.publication import Staging
from pyspark_savepoint.formats.snapshot.write_folder import expect_folder

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
IGNORED_NAMES = [
    ".pending-0123456789ab/x",
    "0123456789ab-copy-1",
    "._metadata.0123456789ab",
    ".DS_Store",
    "lost+found/x",
]


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
    make(tmp_path, IGNORED_NAMES)
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
    monkeypatch.setattr("pyspark_savepoint.formats.snapshot.write_folder.MAX_LISTED", 7)
    with pytest.raises(StateExistsError) as raised:
        expect_folder(Staging.at(str(tmp_path)))
    assert raised.value.facts["found"].endswith("and 2 more")


@pytest.mark.parametrize("name", ["inside", "inside/deeper"])
@pytest.mark.parametrize(
    "words",
    [
        ["rename", "SHOP", "NEW", "accounts=others"], ["cp", "SHOP", "NEW"], ["pin", "SHOP", "NEW"],
        ["split", "SHOP", "--to", "NEW", "accounts", "--rest", "BESIDE"],
        ["split", "SHOP", "--to", "BESIDE", "accounts", "--rest", "NEW"],
        ["merge", "SHOP", "OTHER", "NEW"], ["remove", "SHOP", "NEW", "accounts"],
        ["migrate", "SHOP", "NEW", "--flink", "2.3"], ["set-max-parallelism", "SHOP", "NEW", "256"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_nothing_is_written_into_a_snapshot(
    tmp_path: Path, words: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "savepoint"
    shutil.copytree(SHOP, copy)
    before = sorted(path.name for path in copy.iterdir())
    rows = pa.table({"id": [1], "v": [1]})
    other = pyspark_savepoint.create().with_operator("other", rows, key="id").write(tmp_path / "other").path
    places = {"SHOP": copy, "OTHER": other, "NEW": copy / name, "BESIDE": tmp_path / "beside"}
    assert main([str(places.get(word, word)) for word in words]) == 2
    assert "inside of the folder of a snapshot" in capsys.readouterr().err
    assert sorted(path.name for path in copy.iterdir()) == before
    assert not (tmp_path / "beside").exists()


def test_no_door_writes_into_a_snapshot(tmp_path: Path) -> None:
    copy = tmp_path / "savepoint"
    shutil.copytree(SHOP, copy)
    base = pyspark_savepoint.open(copy)
    for write in (base.write, base.pin, base.migrate("2.3").write, base.remove_operator("accounts").write):
        with pytest.raises(StateExistsError, match="inside of the folder of a snapshot"):
            write(copy / "inside")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder of Linux that takes no others")
def test_a_folder_that_takes_no_others_is_an_error() -> None:
    """Automounters and FUSE answer so, too: there is no such file, though its parent is there."""
    with pytest.raises(OutputError, match="No such file or directory"):
        pyspark_savepoint.open(SHOP).write("/proc/no-such-folder")
