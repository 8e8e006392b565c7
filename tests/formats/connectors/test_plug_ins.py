"""Kinds of other packages: the documented example, and mistakes, which name the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_savepoint.formats.connectors.payloads.kind import COMMITTABLES, ConnectorKind, Payload, columns
from pyspark_savepoint.formats.connectors.registry import guarded
from pyspark_savepoint.formats.errors import UserFunctionError

README = Path(__file__).parents[3] / "formats" / "README.md"
READ = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pyspark_savepoint.formats.errors import UserFunctionError
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.open_table import open_table
try:
    table = open_table(TableRequest(sys.argv[2], table="committables"))
    rows = [row for part in table.partitions(1) for batch in part.batches() for row in batch.to_pylist()]
    print(json.dumps([[row["connector"], row["transaction"], row["written"]] for row in rows]))
except UserFunctionError as error:
    print(error)
"""


def installed(folder: Path, source: str, value: str) -> str:
    """Return what a read of a sink's committables prints with this module installed as a package."""
    (folder / "shop_connectors.py").write_text(source)
    info = folder / "plugged-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[pyspark_savepoint.connectors]\nshop = {value}\n")
    return str(folder)


def read(folder: str, corpus: Path) -> str:
    (savepoint,) = (corpus / "connectors" / "2.3.0-txnsink").glob("savepoint-*")
    command = [sys.executable, "-c", READ, folder, str(savepoint)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout


def test_the_documented_connector_reads_a_sink_of_real_flink(corpus: Path, tmp_path: Path) -> None:
    text = README.read_text()
    value = re.search(r'^shop = "(shop_connectors:\w+)"$', text, re.MULTILINE)
    source = re.search(r"```python\n(# shop_connectors.py\n.*?)```", text, re.DOTALL)
    assert value is not None
    assert source is not None
    rows = json.loads(read(installed(tmp_path, source[1], value[1]), corpus))
    assert sorted(rows, key=repr) == [
        ["shop", "txn-0", None], ["shop", "txn-1", None], ["shop", "txn-2", None],
        ["shop", None, "writer:0"], ["shop", None, "writer:190"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("KINDS = [3]", "3 is neither a Connector nor a ConnectorKind"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(corpus: Path, tmp_path: Path, source: str, said: str) -> None:
    printed = read(installed(tmp_path, source, "shop_connectors:KINDS"), corpus)
    assert said in printed
    assert "package plugged 1.2" in printed


#: A source of another package, in the layout of Flink's own sequences: an id, the next number, the last one.
SOURCE = """
from collections.abc import Mapping
from dataclasses import replace
import pyarrow as pa
from pyspark_savepoint.formats.connectors.payloads.connector import Connector
from pyspark_savepoint.formats.connectors.payloads.edits import Edited, SplitEdits
from pyspark_savepoint.formats.connectors.payloads.kind import (
    SOURCE_COORDINATOR, SPLITS, ConnectorKind, Position, columns,
)
from pyspark_savepoint.formats.connectors.payloads.layouts import UTF, payloads
from pyspark_savepoint.formats.encodings import I64, many
from pyspark_savepoint.formats.structs import Struct, of, part, struct

@struct
class Split(Struct):
    name: str = part(UTF, "a name")
    at: int = part(I64, "a number")
    end: int = part(I64, "a number")

    def row(self):
        return {"split_id": self.name, "at": self.at, "end": self.end}

COLUMNS = columns(at=pa.int64(), end=pa.int64())
POSITIONS = lambda split: [Position("shop", split.name, split.at)]
KINDS = (
    ConnectorKind("shop", SPLITS, COLUMNS, *payloads(of(Split), (1,)), lambda split: [split.row()],
                  positions=POSITIONS),
    ConnectorKind("shop", SOURCE_COORDINATOR, COLUMNS, *payloads(many(of(Split)), (1,), "splits"),
                  lambda splits: [split.row() for split in splits], states=(),
                  positions=lambda splits: [position for split in splits for position in POSITIONS(split)]),
)

class Edits(SplitEdits):
    key_columns = ("split_id",)

    def key(self, value):
        return (value.name,)

    def target(self, target):
        return target if isinstance(target, Mapping) else {"at": target}

    def positioned(self, row):
        return {"split_id": row["partition"], "at": row["offset"]}

    def moved(self, value, by, clamp):
        raise RuntimeError("no licence to move")

    def changed(self, value, row):
        if row["at"] > value.end:
            raise ValueError(f"{value.name} ends at {value.end}")
        return replace(value, at=row["at"])

    def goes_back(self, before, after):
        return after.at < before.at

    def added(self, source, rows):
        raise ValueError("the shop adds splits itself")

    def removed(self, source, keys, forget):
        return Edited(self.without(source, set(keys)))

CONNECTORS = [Connector("shop", KINDS, versions="1", proof="", edits=Edits())]
"""
EDIT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pyspark_savepoint
from pyspark_savepoint import SavepointError
sp = pyspark_savepoint.open(sys.argv[2])
(uid,) = {row["operator_uid_hash"] for row in sp.table("splits").rows()}
at = lambda sp: {row["split_id"]: row["at"] for row in sp.table("splits", connector="shop").rows()}
before = at(sp)
first, *others = sorted(before)
new = sp.sources.with_offsets(uid, {first: 1}).sources.remove_splits(uid, others[:1]).write(sys.argv[3])
said = []
for edit in (
    lambda: sp.sources.with_offsets(uid, {first: 1 << 40}),
    lambda: sp.sources.with_offsets(uid, by=1),
    lambda: sp.sources.add_splits(uid, [{"split_id": "9", "at": 1, "end": 2}]),
    lambda: sp.sources.with_offsets(uid, {"none": 1}),
):
    try:
        edit().write(sys.argv[3] + "-no")
        said.append("nothing")
    except SavepointError as error:
        said.append(str(error))
print(json.dumps([before, at(new), said]))
"""


def test_a_plugged_in_source_is_read_changed_and_refuses(corpus: Path, tmp_path: Path) -> None:
    folder = installed(tmp_path, SOURCE, "shop_connectors:CONNECTORS")
    (savepoint,) = (corpus / "connectors" / "2.3.0-seq").glob("savepoint-*")
    command = [sys.executable, "-c", EDIT, folder, str(savepoint), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    before, after, (beyond, moved, added, unknown) = json.loads(done.stdout)
    first, second, *_ = sorted(before)
    assert after == {**{name: at for name, at in before.items() if name != second}, first: 1}
    assert f"{first} ends at" in beyond
    assert "the plug-in failed in moved: RuntimeError: no licence to move" in moved
    assert "package plugged 1.2" in moved
    assert "the shop adds splits itself" in added
    assert "has no split none" in unknown
    assert not (tmp_path / "new-no").exists()


HYBRID = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pyspark_savepoint
from pyspark_savepoint import SavepointError
sp = pyspark_savepoint.open(sys.argv[2])
table = lambda sp: sp.table("splits", connector="hybrid_shop").rows()
rows = lambda sp: sorted((row["split_id"], row["source_index"], row["at"]) for row in table(sp))
(uid,) = {row["operator_uid_hash"] for row in sp.table("splits").rows()}
before = rows(sp)
new = sp.sources.with_offsets(uid, {before[0][0]: before[0][2] + 1}).write(sys.argv[3])
try:
    said = sp.sources.with_offsets(uid, by=1).write(sys.argv[3] + "-no")
except SavepointError as error:
    said = str(error)
print(json.dumps([before, rows(new), said]))
"""


@pytest.mark.parametrize("name", ["2.3.0-hybrid-first", "2.3.0-hybrid-second"])
def test_a_hybrid_source_over_a_plugged_in_one_is_read_and_changed(corpus: Path, tmp_path: Path, name: str) -> None:
    folder = installed(tmp_path, SOURCE, "shop_connectors:CONNECTORS")
    (savepoint,) = (corpus / "connectors" / name).glob("savepoint-*")
    command = [sys.executable, "-c", HYBRID, folder, str(savepoint), str(tmp_path / "new")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    before, after, refusal = json.loads(done.stdout)
    (split, index, at), *others = before
    assert after == [[split, index, at + 1], *others]
    assert "the plug-in failed in moved: RuntimeError: no licence to move" in refusal
    assert "package plugged 1.2" in refusal


def kind(**functions: Any) -> ConnectorKind[Any]:
    own = {"decode": lambda _, view: view.read_i32(), "encode": lambda _, value, out: out.write_i32(value), **functions}
    rows = own.pop("rows", lambda value: [{"n": value}])
    return guarded(
        ConnectorKind("mine", COMMITTABLES, columns(n=pa.int32()), rows=rows, **own), "entry point 'shop' of package x"
    )


def fails(*_: object) -> Any:
    raise KeyError("oops")


def test_mistakes_name_the_plug_in() -> None:
    payload = Payload(1, bytes(3) + b"\7")
    assert list(kind().rows(kind().read(payload))) == [{"n": 7}]
    for function in ("decode", "encode", "check"):
        with pytest.raises(UserFunctionError, match=f"failed in {function}: KeyError: 'oops'") as raised:
            kind(**{function: fails}).read_all([payload])
        assert raised.value.facts["function"] == "entry point 'shop' of package x"
    for rows in (fails, lambda value: [{"n": "seven"}]):
        with pytest.raises(UserFunctionError, match="failed in rows"):
            kind(rows=rows).rows(7)
    positions = kind(positions=fails).positions
    assert positions is not None
    with pytest.raises(UserFunctionError, match="failed in positions"):
        positions(7)


def test_what_is_not_its_own_is_refused_with_its_words() -> None:
    def refused(*_: object) -> Any:
        raise ValueError("only ours")

    with pytest.raises(ValueError, match="only ours"):
        kind(decode=refused).read(Payload(1, b""))
