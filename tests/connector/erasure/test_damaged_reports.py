"""Reports of erasures of which one thing was changed: an error of this package, or a proof that says so or is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyspark_savepoint
from pyspark_savepoint.erasure.report import ErasureReport
from pyspark_savepoint.errors import OptionError, SavepointError
from tests.connector.erasure.test_erasing import errors
from tests.mutations import changed, mutations, paths

pytestmark = pytest.mark.many_sets

WHERE = {"accounts.recent_amounts": "list_value > 100.0"}
#: Parts that a proof only shows or does not need.
SHOWN = ("package", "time", "operators", "not_looked_into", "standing", "not_searched", "below", "others")


@pytest.fixture(scope="module")
def written(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ErasureReport]:
    """A savepoint without a person, and the report."""
    folder = tmp_path_factory.mktemp("report")
    report = pyspark_savepoint.open(shop).erase([1042], where=WHERE, to=folder / "new", below=folder)
    return folder / "new", report


@pytest.mark.thorough  # each part of a report is changed
def test_every_part_has_its_kind(written: tuple[Path, ErasureReport]) -> None:
    content = json.loads(written[1].to_json())
    refused = 0
    for name, other in mutations(content):
        text = json.dumps(other)
        try:
            read = ErasureReport.read(text)
        except OptionError:
            refused += 1
        else:
            assert read.to_markdown(), name
    assert refused > 1000
    with pytest.raises(OptionError, match=r"operators\[0\]\.states\[0\]\.seen is no whole number: -1"):
        ErasureReport.read(json.dumps(changed(content, ("operators", 0, "states", 0, "seen"), -1)))
    with pytest.raises(OptionError, match="not a report of an erasure"):
        ErasureReport.read('{"form": 1, ' + written[1].to_json()[1:])


@pytest.mark.thorough  # each part of a report is changed
def test_a_proof_finds_what_was_changed(written: tuple[Path, ErasureReport]) -> None:
    folder, report = written
    new, content = pyspark_savepoint.open(folder), json.loads(report.to_json())
    proved = []
    for path in paths(content):
        if path[0] in SHOWN or "of" in path or path[-1] == "size":
            continue
        for strange in ("", None, []):
            other = changed(content, path, strange)
            if other == content:
                continue
            try:
                found = new.verify_erasure(json.dumps(other), [1042], where=WHERE, salt=report.salt)
            except SavepointError:
                continue
            if not errors(found):
                proved.append(path)
    # The savepoint may have been moved since.
    assert set(proved) == {("after", "path")}
