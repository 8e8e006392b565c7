"""Some damaged inputs of every format, always the same ones. Many more: ``python -m tests.fuzz --hours 2``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.formats import FOUND, fuzz

pytestmark = pytest.mark.slow("damaged snapshots by the hundred")

#: Quick targets, whose workers start quickly.
CHEAP = ("connectors", "metadata", "java", "pickle", "notation", "manifest", "avro")


@pytest.mark.parametrize("target", CHEAP)
def test_damaged_inputs_are_read_or_refused(target: str, corpus: Path, tmp_path: Path) -> None:
    report = fuzz(target, 20, 0, 300, tmp_path)
    assert not report.problems, report.problems
    assert report.inputs == 300
    # Damage that is never detected, or always, would test nothing.
    assert 0 < report.read < 300


def test_what_was_found_before_is_not_found_again(corpus: Path, tmp_path: Path) -> None:
    for folder in sorted(FOUND.iterdir()):
        if folder.name != "snapshot":
            found = sorted(folder.iterdir())
            report = fuzz(folder.name, 0, 0, 0, tmp_path, found)
            assert not report.problems, report.problems
            assert report.inputs == len(found) > 0
