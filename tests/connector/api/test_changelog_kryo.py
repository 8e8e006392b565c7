"""Values of Kryo in a changelog are decoded with descriptions of classes, and conditions name their fields."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.command_line.warming import unpack

ARCHIVE = Path(__file__).parents[2] / "oracle" / "savepoints" / "changelog-kryo" / "1.20.5.tar.xz"
SEALED = "oracle.Model$Sealed(text String, number long, more List<String>)"
STATE = "other-class"

pytestmark = pytest.mark.filterwarnings("ignore:.*have no uid here")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of real Flink; its log lies beside the folder of checkpoints."""
    folder = tmp_path_factory.mktemp("changelog-kryo")
    unpack(ARCHIVE, folder)
    (metadata,) = folder.rglob("_metadata")
    return metadata.parent


def test_values_are_structs(checkpoint: Path) -> None:
    sp = pyspark_savepoint.open(checkpoint, kryo_types=SEALED, allow_outside=True)
    rows = {row["key"]: row[STATE] for row in sp.keyed_state("kryo", state=STATE).rows()}
    assert rows == {key: {"more": ["more"], "number": 1 << 40, "text": "text"} for key in range(8)}


def test_without_a_description_they_are_bytes(checkpoint: Path) -> None:
    sp = pyspark_savepoint.open(checkpoint, allow_outside=True)
    with pytest.warns(UserWarning, match=r"KRYO<oracle\.Model\$Sealed>"):
        assert {type(row[STATE]) for row in sp.keyed_state("kryo", state=STATE).rows()} == {bytes}


def test_a_condition_on_a_field_erases(checkpoint: Path, tmp_path: Path) -> None:
    sp = pyspark_savepoint.open(checkpoint, kryo_types=SEALED, allow_outside=True, timestamps="raw", raw="object-enum")
    report = sp.erase(where={"kryo": f"`{STATE}`.text = 'text' AND key < 3"}, to=tmp_path / "new")
    new = pyspark_savepoint.open(tmp_path / "new", kryo_types=SEALED)
    assert {row["key"] for row in new.keyed_state("kryo", state=STATE).rows()} == {3, 4, 5, 6, 7}
    assert report.removed >= 3
