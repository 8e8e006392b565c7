"""connector/README.md has the journeys as they are: who adds modules to one prints its table again."""

from __future__ import annotations

import re
import sys

import pytest

from tests.journeys import JOURNEYS, module_names, sizes_table, steps_of
from tests.pages import CONNECTOR, section

#: By which part of them numbers may differ: modules that few bytes pass come and go.
MARGIN = 0.1
#: The Python from which on numba does not tell profilers that a compiled kernel is called.
TELLS_NO_KERNELS = (3, 13)


def numbers(table: str, name: str) -> list[int]:
    """The numbers of a row."""
    found = re.search(rf"^\| {re.escape(name)} \| (.*) \|$", table, re.MULTILINE)
    assert found, f"no row {name}"
    return [int(number.replace(",", "")) for number in found[1].split(" | ")]


@pytest.mark.parametrize("name", JOURNEYS)
def test_journeys_are_as_long_as_the_page_says(name: str) -> None:
    steps = steps_of(name)
    modules, _, changes = numbers(section(CONNECTOR, "journeys"), name)
    assert len(steps.modules) == pytest.approx(modules, rel=MARGIN)
    assert steps.changes <= changes * (1 + 2 * MARGIN)
    assert steps.changes >= changes * (1 - 2 * MARGIN) or sys.version_info >= TELLS_NO_KERNELS


@pytest.mark.parametrize("folder", ["`connector`", "`formats`", "`statebackends`", "all"])
def test_folders_are_as_large_as_the_page_says(folder: str) -> None:
    assert numbers(sizes_table(), folder) == pytest.approx(numbers(section(CONNECTOR, "sizes"), folder), rel=MARGIN)


def test_steps_name_modules() -> None:
    """The journey ends where its rows are: a module is counted by the file that its functions name."""
    found = steps_of("read").modules
    assert "connector/engines/spark/datasource.py" in found
    assert "statebackends/tables/keyed_table.py" in found
    assert set(found) <= set(module_names().values())
