"""No ``repr`` shows a secret that stands in a path, pasted by a user or recorded in a snapshot; each is one line."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import pyspark_savepoint
from pyspark_savepoint import OperatorTransformation, StreamGraph, TumblingEventTimeWindows
from pyspark_savepoint.formats.filesystems.filesystem import locate
from pyspark_savepoint.formats.filesystems.remote import StoreTarget
from pyspark_savepoint.formats.filesystems.storage_options import NO_OPTIONS, StorageOptions, StoragePath
from pyspark_savepoint.formats.snapshot.publication import Staging

#: Fields with a path or an URI, where their type is a text.
PATHS = {
    "path", "paths", "directory", "authority", "uri", "metadata_path", "local_path", "task_owned_dir", "shared_dir",
    "types_from", "class_path", "given", "relative_path", "prefix", "root",
}  # fmt: skip
#: Fields of these names that have no path.
OTHERS = {("LogicalType", "root"), ("Pair", "path"), ("ChangedPart", "path"), ("Cursors", "path")}
SHOP = Path(__file__).parent / "oracle" / "savepoints" / "shop" / "savepoint"
SECRET = "mArKeR"
PASTED = (
    f"s3://KEY{SECRET}:{SECRET}/secret{SECRET}@bucket/sp",
    f"s3://bucket/sp#aws_secret_access_key={SECRET}&sig={SECRET}",
    f"abfss://container:{SECRET}@account.dfs.core.windows.net/sp",
    f"hdfs://user:{SECRET}@host:9000/sp",
    f"/mnt/sp/s3:/KEY{SECRET}:{SECRET}/x@bucket",
)


def classes() -> Iterator[tuple[type[Any], list[dataclasses.Field[Any]]]]:
    """Yield the data classes of the package that have a path, and its fields."""
    for module in pkgutil.walk_packages(pyspark_savepoint.__path__, "pyspark_savepoint."):
        if module.name.endswith("__main__"):
            continue
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and found.__module__ == module.name and dataclasses.is_dataclass(found):
                named = [
                    each
                    for each in dataclasses.fields(found)
                    if each.repr
                    and each.name in PATHS
                    and "str" in str(each.type)
                    and not str(each.type).startswith(("dict[", "frozenset["))
                    and (found.__name__, each.name) not in OTHERS
                ]
                if named:
                    yield found, named


def test_every_data_class_with_a_path_hides_secrets_in_it() -> None:
    seen = []
    for kind, paths in classes():
        for pasted in PASTED:
            made = object.__new__(kind)
            for each in dataclasses.fields(kind):
                value: Any = pasted if each in paths else None
                if each.name == "authority":
                    value = pasted.partition("://")[2]
                elif each.name == "scheme":
                    value = "s3"
                elif each.name == "filesystem":
                    value = SimpleNamespace(uri=lambda path: path)
                object.__setattr__(made, each.name, value)
            if SECRET in repr(made):
                seen.append(repr(made))
    assert len(list(classes())) > 30
    assert not seen, "\n".join(seen)


@pytest.mark.parametrize("path", PASTED)
def test_what_is_made_of_a_path_hides_its_secrets(path: str) -> None:
    staging = Staging.at(path)
    options = StorageOptions.of({"region": "eu-west-1"})
    shown = [repr(each) for each in (staging, staging.begun, staging.filesystem, locate(path)[0])]
    shown += [repr(StoragePath.of(path, options)), repr([StoragePath.of(path, options)])]
    if "://" in path:
        scheme, _, rest = path.partition("://")
        shown.append(repr(StoreTarget(scheme, rest.partition("/")[0], NO_OPTIONS, recorded=False)))
    assert not [text for text in shown if SECRET in text]
    assert "Staging(" in shown[0]


def test_a_client_of_a_store_hides_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "account")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "bUFyS2VSbUFyS2VSbUFyS2VS")
    filesystem, _ = locate("abfss://c@account.dfs.core.windows.net/sp")
    store = filesystem.store  # type: ignore[attr-defined]
    monkeypatch.delenv("AZURE_STORAGE_KEY")
    assert "bUFyS2VS" not in repr(store)


def test_what_verbs_return_is_one_short_line() -> None:
    rows = pa.table({"id": [1], "at": [2]})
    source = OperatorTransformation.bootstrap_with(rows)
    keyed = source.key_by("id")
    savepoint = pyspark_savepoint.open(SHOP)
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
    for each, said in (
        (savepoint, "7 operators"),
        (savepoint.plan, "7 operators"),
        (savepoint.migrate("2.3"), "migration to Flink 2.3: check(), write(path)"),
        (savepoint.inspect.plot, "growth(folder)"),
        (savepoint.inspect.verify(), "columns (operator_uid,"),
        (savepoint.diff(savepoint), "columns (operator_uid,"),
        (pyspark_savepoint.open_history(SHOP.parent), "1 snapshot, checkpoints 1 to 1"),
        (source, "rows (id, at)"),
        (keyed, "rows (id, at) by id"),
        (windows, "in windows of TumblingEventTimeWindows"),
        (windows.process(), "keyed state that windows will make"),
        (StreamGraph(parallelism=2), "0 nodes, parallelism 2"),
    ):
        text = repr(each)
        assert said in text
        assert len(text) < 300
        assert "\n" not in text
        assert " at 0x" not in text
