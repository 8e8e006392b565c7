"""Fixtures that run real Flink: versions, savepoints that are generated once per session, a JVM to ask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.flink import (
    Case,
    FlinkError,
    Generated,
    Oracle,
    SavepointOf,
    compile_harness,
    generate,
    newest_version,
)

NEWEST = "newest"
VERSIONS = [version for version in os.environ.get("FLINK_VERSIONS", f"1.16.3,1.20.5,{NEWEST}").split(",") if version]


@contextmanager
def failing_in_one_line() -> Iterator[None]:
    """Fail tests with one line and no traceback where Java or the network is missing."""
    reason = ""
    try:
        yield
    except FlinkError as error:
        reason = str(error)
    if reason:
        pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session", params=VERSIONS)
def flink_version(request: pytest.FixtureRequest) -> str:
    """Each Flink version to test with, ready to run."""
    with failing_in_one_line():
        version = newest_version() if request.param == NEWEST else str(request.param)
        compile_harness(version)
    return version


@pytest.fixture(scope="session")
def savepoint_of(tmp_path_factory: pytest.TempPathFactory) -> SavepointOf:
    """A function that takes the fields of a `Case` and has Flink write it, once per session."""
    folder = tmp_path_factory.mktemp("flink")
    written: dict[str, Generated] = {}

    def savepoint_of(version: str, job: str, **other: Any) -> Generated:
        case = Case(version, job, **other)
        if case.name not in written:
            with failing_in_one_line():
                written[case.name] = generate(case, folder / case.name)
        return written[case.name]

    return savepoint_of


@pytest.fixture(scope="session")
def flink_oracle(flink_version: str) -> Iterator[Oracle]:
    """A JVM with Flink's serializers, for questions."""
    with failing_in_one_line():
        oracle = Oracle(flink_version)
    with oracle:
        yield oracle


@pytest.fixture(scope="session")
def shop() -> Generated:
    """The savepoint that ships with the project."""
    return Generated.load(Path(__file__).parent / "savepoints" / "shop")
