"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import pyspark_savepoint


def modules_with_examples() -> list[str]:
    """Names of the modules whose source has an example."""
    found = pkgutil.walk_packages(pyspark_savepoint.__path__, "pyspark_savepoint.")
    specs = [importlib.util.find_spec(module.name) for module in found if not module.name.endswith("__main__")]
    return [spec.name for spec in specs if spec and spec.origin and ">>> " in Path(spec.origin).read_text()]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted
    assert not done.failed
