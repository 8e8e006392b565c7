"""Plug-in of pytest: fixture ``savepoint_golden``. Nothing of this package is imported before a test asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark_savepoint.api.local_savepoint import LocalSavepoint

NAME = "savepoint_golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(NAME, "the savepoint of fixture savepoint_golden, relative to the root folder", default="golden")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{NAME}(path): the savepoint of fixture {NAME}, relative to the folder of the test"
    )


@pytest.fixture
def savepoint_golden(request: pytest.FixtureRequest) -> LocalSavepoint:
    """The savepoint that a test is about, without Spark.

    It is at the path of marker ``savepoint_golden``, relative to the test's folder, or else at that of the setting
    ``savepoint_golden`` (default ``golden``), relative to pytest's root folder.
    """
    from pyspark_savepoint.api.local_savepoint import open_savepoint

    marker = request.node.get_closest_marker(NAME)
    if marker is not None:
        (given,) = marker.args
        return open_savepoint(Path(request.path).parent / given)
    return open_savepoint(request.config.rootpath / request.config.getini(NAME))
