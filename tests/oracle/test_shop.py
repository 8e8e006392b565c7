"""The savepoint that ships with the project is whole, small, and says nothing of the machine that made it."""

from __future__ import annotations

import re

from oracle.flink import Generated
from pyspark_savepoint.formats.savepoint import Savepoint


def test_its_metadata_names_the_operators_that_it_was_made_of(shop: Generated) -> None:
    savepoint = Savepoint.open(str(shop.path))

    found = {(operator.uid, operator.name, operator.operator_id.hex) for operator in savepoint.operators}

    stateless = {"orders-parser"}
    expected = {
        (operator["uid"], operator["name"], operator["operatorId"])
        for operator in shop.expected["operatorIds"]
        if operator["uid"] not in stateless
    }
    assert expected <= found
    assert savepoint.metadata.version == 6


def test_its_metadata_knows_every_file(shop: Generated) -> None:
    savepoint = Savepoint.open(str(shop.path))
    names = {path.name for path in shop.path.iterdir()} - {"_metadata"}

    metadata = (shop.path / "_metadata").read_bytes()

    assert savepoint.metadata.state_size > 20_000
    assert all(name.encode() in metadata for name in names)


def test_it_is_small(shop: Generated) -> None:
    assert sum(path.stat().st_size for path in shop.path.iterdir()) < 150_000


def test_it_holds_no_path_of_a_machine(shop: Generated) -> None:
    metadata = (shop.path / "_metadata").read_bytes()

    paths = set(re.findall(rb"file:[\w./-]+?/savepoint-", metadata))

    assert paths == {b"file:/dev/shm/savepoints/savepoint-"}
