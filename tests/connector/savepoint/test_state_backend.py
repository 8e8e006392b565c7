"""``Savepoint.create(state_backend=...)``, as ``SavepointWriter.newSavepoint`` takes one (FLIP-43)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("backend", "message"),
    [("forst", "forst restores no canonical savepoint"), ("rocksbd", "there is no such state backend")],
)
def test_a_backend_that_cannot_restore_it_is_refused(backend: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        Savepoint.create(None, state_backend=backend)  # type: ignore[arg-type]
    assert "rocksdb" in caught.value.facts["remedy"]


def test_files_of_rocksdb_become_canonical_for_hashmap(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    native = Savepoint.load(spark, str(corpus / "lab" / "2.2.1-rocksdb-native" / "savepoint"))
    for backend, portable in (("hashmap", True), ("rocksdb", False)):
        created = Savepoint.create(spark, max_parallelism=128, state_backend=backend)  # type: ignore[arg-type]
        path = str(tmp_path / backend)
        written = created.with_operator("kv-long", native).write(path)
        assert written.is_portable is portable
        assert written.keyed_state("kv-long").count() == native.keyed_state("kv-long").count()
