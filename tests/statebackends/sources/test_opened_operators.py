"""Operators that are kept between queries: used only while their files are unchanged."""

from __future__ import annotations

import pickle
import shutil
import time
from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import OperatorNotFoundError, SnapshotNotFoundError
from pyspark_savepoint.formats.filesystems.filesystem import RECENT, LocalFileSystem
from pyspark_savepoint.formats.filesystems.storage_options import StoragePath
from pyspark_savepoint.formats.metadata.identifiers import OperatorID
from pyspark_savepoint.statebackends.requests.request import TableRequest
from pyspark_savepoint.statebackends.sources.open_operator import KEPT, OpenedOperators
from tests.statebackends.writing.written_operators import write_both

#: Each has four subtasks with a file of keyed state and one of operator state.
OPERATOR, OTHER = (OperatorID.from_uid(uid).hex for uid in ("accounts", "rates"))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot that has been there for a while."""
    path = tmp_path_factory.mktemp("old") / "sp"
    for uid in ("accounts", "rates"):
        write_both(path, uid)
    time.sleep(RECENT / 1e9 + 0.1)
    return path


@pytest.fixture
def opened() -> OpenedOperators:
    return OpenedOperators()


def request(path: Path, operator: str = OPERATOR) -> TableRequest:
    return TableRequest(str(path), uid_hash=operator)


def test_it_is_the_same_while_the_files_are(opened: OpenedOperators, old: Path) -> None:
    first = opened.open(request(old))
    assert first.keyed.headers
    assert first.stream_headers
    assert opened.open(request(old)) is first
    assert opened.open(request(old, OTHER)) is not first
    other = TableRequest(str(old), uid_hash=OPERATOR, allow_outside=True)
    assert opened.open(other) is not first
    stored = TableRequest(StoragePath.of(str(old), '{"endpoint": "http://host"}'), uid_hash=OPERATOR)
    assert opened.open(stored) is not first
    assert opened.open(request(old)) is first


def test_another_process_uses_what_this_one_opened(opened: OpenedOperators, old: Path) -> None:
    headers = opened.open(request(old)).keyed.headers
    shared = opened.shared(request(old))
    assert shared is not None
    elsewhere = OpenedOperators()
    elsewhere.keep(pickle.loads(pickle.dumps(shared)))
    assert elsewhere.open(request(old)).keyed.headers == headers
    assert opened.shared(request(old, OTHER)) is None


def test_new_metadata_is_seen(corpus: Path, tmp_path: Path) -> None:
    path, operator = tmp_path / "sp", OperatorID.from_uid("kv-long").hex
    shutil.copytree(corpus / "lab" / "1.20.5-hashmap-native" / "savepoint", path)
    opened = OpenedOperators()
    time.sleep(RECENT / 1e9 + 0.1)
    first = opened.open(request(path, operator))
    data = (path / "_metadata").read_bytes()
    (path / "_metadata").unlink()
    with pytest.raises(SnapshotNotFoundError):
        opened.open(request(path, operator))
    # The same size, at the same time: another inode, and another time of change.
    (path / "_metadata").write_bytes(data.replace(bytes.fromhex(operator), bytes.fromhex("0" * 32)))
    with pytest.raises(OperatorNotFoundError):
        opened.open(request(path, operator))
    (path / "_metadata").write_bytes(data)
    assert opened.open(request(path, operator)) is not first


def test_a_state_file_that_was_overwritten_is_seen(old: Path, tmp_path: Path) -> None:
    path = tmp_path / "sp"
    shutil.copytree(old, path)
    opened = OpenedOperators()
    time.sleep(RECENT / 1e9 + 0.1)
    first = opened.open(request(path))
    assert first.keyed.headers
    file = Path(next(iter(first.identities)))
    assert opened.open(request(path)) is first
    file.write_bytes(file.read_bytes())
    again = opened.open(request(path))
    assert again is not first
    # Its times may not change with the next write, so that this one is not kept.
    assert again.keyed.headers == first.keyed.headers
    assert opened.open(request(path)) is not again


def test_the_identity_of_a_new_file_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"")
    assert LocalFileSystem().identity(str(tmp_path / "new")) is None
    assert LocalFileSystem().identity(str(tmp_path / "none")) is None


def test_only_some_are_kept(opened: OpenedOperators, old: Path) -> None:
    first = opened.open(request(old))
    for number in range(KEPT):
        named = TableRequest(str(old) + "/" * (number + 1), uid_hash=OPERATOR)
        opened.open(named)
    assert opened.open(request(old)) is not first
