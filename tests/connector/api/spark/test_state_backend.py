"""``Savepoint.create(state_backend=...)``, as ``SavepointWriter.newSavepoint`` takes one (FLIP-43)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_savepoint import Savepoint
from pyspark_savepoint.formats.errors import OptionError
from pyspark_savepoint.options.operators import identifier_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("backend", "message"),
    [("forst", "forst cannot restore a canonical savepoint"), ("rocksbd", "there is no such state backend")],
)
def test_a_backend_that_cannot_restore_it_is_refused(spark: SparkSession, backend: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        Savepoint.create(spark, state_backend=backend)
    assert "rocksdb" in caught.value.facts["remedy"]


@pytest.mark.thorough("a backend that is refused")
def test_what_a_backend_cannot_restore_becomes_canonical(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    """``Savepoint.load(env, path, backend)`` of FLIP-43: files of RocksDB stay for RocksDB, those of the heap never."""
    native = Savepoint.load(spark, str(corpus / "lab" / "2.2.1-rocksdb-native" / "savepoint"))
    for backend, portable in (("hashmap", True), ("rocksdb", False)):
        created = Savepoint.create(spark, max_parallelism=128, state_backend=backend)  # type: ignore[arg-type]
        written = created.with_operator("kv-long", native).write(str(tmp_path / backend))
        assert written.is_portable is portable
    assert written.keyed_state("kv-long").count() == native.keyed_state("kv-long").count()
    path = str(corpus / "lab" / "1.20.5-hashmap-native" / "savepoint")
    with pytest.raises(OptionError, match="forst cannot restore a canonical savepoint"):
        Savepoint.load(spark, path, state_backend="forst")  # type: ignore[arg-type]
    loaded = Savepoint.load(spark, path, state_backend="rocksdb")
    rows = loaded.keyed_state("kv-long").count()
    for operator in loaded.plan.operators:
        if operator.identifier.operator_id != identifier_of("kv-long").operator_id:
            loaded = loaded.remove_operator(operator.identifier)
    written = loaded.write(str(tmp_path / "loaded"))
    assert written.is_portable
    assert written.keyed_state("kv-long").count() == rows
