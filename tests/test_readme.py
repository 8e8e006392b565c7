"""What the README promises is what the code does: its tables are compared, its Python examples run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyspark_savepoint.formats.io.storage_options import storage_options_table
from pyspark_savepoint.formats.serializers.registry import known_serializers
from pyspark_savepoint.options.bootstrap_options import processing_options_table
from pyspark_savepoint.options.options import options_table
from pyspark_savepoint.options.write_options import write_options_table
from pyspark_savepoint.statebackends.writing.planning.flink_types import defaults_table

README = Path(__file__).parents[1] / "README.md"
SHOP = Path(__file__).parent / "oracle" / "savepoints" / "shop" / "savepoint"


def section(name: str) -> str:
    """The text between a generated section's comments."""
    found = re.search(rf"<!-- {name}: .*?-->\n(.*?)\n<!-- end of {name} -->", README.read_text(), re.DOTALL)
    assert found, f"the README has no section {name}"
    return found[1].strip()


def serializer_list() -> str:
    """Snapshot classes by package, as the README lists them."""
    packages: dict[str, list[str]] = {}
    for name in known_serializers():
        package, _, stem = name.rpartition(".")
        packages.setdefault(package, []).append(stem.rpartition("$")[2])
    return "\n".join(
        f"* `{package}`: " + ", ".join(f"`{stem}`" for stem in sorted(set(stems)))
        for package, stems in sorted(packages.items())
    )


#: What stands between the comments of a generated section.
GENERATED: dict[str, Callable[[], str]] = {
    "options": options_table,
    "write options": write_options_table,
    "processing options": processing_options_table,
    "default types": defaults_table,
    "serializers": serializer_list,
    "storage options": storage_options_table,
}


@pytest.mark.parametrize("name", GENERATED)
def test_tables_are_those_of_the_code(name: str) -> None:
    assert section(name) == GENERATED[name]().strip()


def test_python_examples_run(spark: Any, tmp_path: Path) -> None:
    """One after the other, as a reader would: each knows the names of those before it."""
    opening, *blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, Any] = {"spark": spark, "path": str(SHOP)}
    for block in blocks:
        code = block.replace("/checkpoints/7d2e.../", str(SHOP)).replace('"/savepoints/', f'"{tmp_path}/')
        exec(code, names)
    assert names["accounts"].where("profile.tier = 'GOLD'").count() > 0
    assert names["bootstrapped"].keyed_state("uid").count() == 2
    assert names["fixed"].keyed_state("accounts").where("total < 0").count() == 0
    assert "spent_by_currency" not in names["fixed"].keyed_state("accounts").columns
    written = names["spark"].read.format("savepoint").option("uid", "again").load(f"{tmp_path}/new")
    assert written.count() == names["accounts"].count()
    assert opening.count('format("savepoint")') == 2


def test_sql_examples_run(spark: Any) -> None:
    (block,) = re.findall(r"```sql\n(.*?)```", README.read_text(), re.DOTALL)
    for statement in filter(str.strip, block.replace("/savepoints/savepoint-2f1a3c", str(SHOP)).split(";")):
        result = spark.sql(statement)
    assert result.count() > 1
