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
