"""Serializers of other packages: their mistakes name them, in this process and in those of Spark's tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.columns import Cursors, DecodeOptions
from pyspark_savepoint.formats.data_view import DataOutputView
from pyspark_savepoint.formats.errors import CorruptStateError, UserFunctionError
from pyspark_savepoint.formats.serializers.base import SnapshotReader, TypeSerializer


class Broken(TypeSerializer):
    """Serializer whose methods all fail."""

    def __init__(self, answer: object = None) -> None:
        self.__dict__.update(answer=answer)

    @classmethod
    def read_snapshot(cls, name: str, version: int, reader: SnapshotReader) -> TypeSerializer:
        raise KeyError(name)

    def write_payload(self, view: DataOutputView) -> None:
        raise SystemExit(3)

    @property
    def flink_type(self) -> str:
        raise AttributeError("no such thing")

    def arrow_type(self, options: DecodeOptions) -> pa.DataType:
        return "string"  # type: ignore[return-value]

    def decode(self, at: Cursors) -> pa.Array:
        answer = self.__dict__["answer"]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (StopIteration(), "decode: StopIteration"),
        (OverflowError("too big"), "decode: OverflowError: too big"),
        ([1, 2], "returned list, expected Array"),
        (pa.array([1]), "1 values for 2 cursors"),
    ],
)
def test_what_fails_in_decode_names_the_plug_in(answer: object, said: str) -> None:
    broken = Broken(answer)
    with pytest.raises(UserFunctionError, match=said) as raised:
        broken.decode(Cursors.over([b"a", b"b"]))
    assert raised.value.facts["function"].endswith("test_plug_ins.Broken")
    assert said.rpartition(": ")[2] in raised.value.facts["traceback"]


def test_every_method_names_the_plug_in() -> None:
    broken = Broken()
    for call in (
        lambda: Broken.read_snapshot("x", 1, None),  # type: ignore[arg-type]
        lambda: broken.write_payload(DataOutputView()),
        lambda: broken.flink_type,
        lambda: broken.arrow_type(DecodeOptions()),
    ):
        with pytest.raises(UserFunctionError, match="plug-in failed in"):
            call()


def test_its_own_errors_stay_and_name_it() -> None:
    broken = Broken(CorruptStateError("not what it should be", path="p"))
    with pytest.raises(CorruptStateError, match="not what it should be") as raised:
        broken.decode(Cursors.over([b"a"]))
    assert raised.value.facts["function"].endswith("Broken")


PACKAGES = {
    "fails": ("mod:Thing", "raise RuntimeError('no licence')", "RuntimeError: no licence"),
    "missing": ("nowhere:Thing", "", "No module named 'nowhere'"),
    "nothing": ("mod:Thing", "", "has no attribute 'Thing'"),
    "other": ("mod:Thing", "Thing = dict", "is not a TypeSerializer"),
    "exits": ("mod:Thing", "import sys; sys.exit(3)", "SystemExit: 3"),
}


@pytest.mark.parametrize("case", PACKAGES)
def test_what_cannot_be_loaded_names_the_entry_point_and_its_package(case: str, tmp_path: Path) -> None:
    value, source, said = PACKAGES[case]
    (tmp_path / "mod.py").write_text(source)
    info = tmp_path / "plugged-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[pyspark_savepoint.serializers]\ncom.shop.Snapshot = {value}\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from pyspark_savepoint.formats.errors import UserFunctionError\n"
        "from pyspark_savepoint.formats.serializers.registry import known_serializers\n"
        "try:\n    known_serializers()\n"
        "except UserFunctionError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert said in done.stdout
    assert "com.shop.Snapshot" in done.stdout
    assert "package plugged 1.2" in done.stdout
