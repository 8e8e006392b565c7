"""What the README promises is what the code does: its tables are compared, its Python examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark_savepoint.formats.serializers.registry import known_serializers
from pyspark_savepoint.options import options_table

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


def test_options_are_those_of_the_code() -> None:
    assert section("options") == options_table().strip()


def test_serializers_are_those_of_the_registry() -> None:
    assert section("serializers") == serializer_list()


def test_python_examples_run(spark: Any) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 2
    code = "\n".join(blocks)
    for path in ("/savepoints/savepoint-2f1a3c", "/checkpoints/7d2e.../"):
        code = code.replace(path, str(SHOP))
    names: dict[str, Any] = {"spark": spark, "path": str(SHOP)}
    exec(code, names)
    assert names["accounts"].where("profile.tier = 'GOLD'").count() > 0


def test_sql_examples_run(spark: Any) -> None:
    (block,) = re.findall(r"```sql\n(.*?)```", README.read_text(), re.DOTALL)
    for statement in filter(str.strip, block.replace("/savepoints/savepoint-2f1a3c", str(SHOP)).split(";")):
        result = spark.sql(statement)
    assert result.count() > 1
