"""The recorded job in which a person stands in 49 places, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint import LocalSavepoint
from pyspark_savepoint.command_line.warming import unpack
from pyspark_savepoint.erasure.report import ErasureReport
from tests.oracle.person import BY, RECORD_TYPES, UIDS, WHERE, keys

RECORDED = Path(__file__).parents[2] / "oracle" / "savepoints" / "person"
VERSIONS = ("1.20.5", "2.3.0")


def opened_job(folder: Path | str) -> LocalSavepoint:
    """A snapshot of the job, with its uids."""
    return pyspark_savepoint.open(folder, uids=UIDS)


@pytest.fixture(scope="module", params=VERSIONS)
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a release."""
    folder = tmp_path_factory.mktemp("person")
    unpack(RECORDED / f"{request.param}.tar.xz", folder)
    return next((folder / "job").glob("chk-*"))


@pytest.fixture(scope="module")
def erased(job: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ErasureReport]:
    """The savepoint without the person, and the report."""
    folder = tmp_path_factory.mktemp("erased") / "new"
    report = opened_job(job).erase(keys(), by=BY, where=WHERE, record_types=RECORD_TYPES, to=folder, below=job)
    return folder, report
