"""Errors of the stores' clients and their meaning; the texts are from real stores that failed."""

from __future__ import annotations

import pytest

from pyspark_savepoint.formats.errors import AccessDeniedError, SavepointError, StateFileNotFoundError, StorageError
from pyspark_savepoint.formats.filesystems.remote import MAX_TEXT, storage_error

CURL = "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 18, Transferred a partial file"
AZURE = "GetFileInfo is unable to determine whether the path exists. Azure Error:"
HIERARCHY = f"Check for Hierarchical Namespace support on 'https://x' failed. {AZURE} []"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (CURL, StorageError, "does not answer"),
        ("AWS Error UNKNOWN (HTTP status 503) during GetObject operation", StorageError, "answers with errors"),
        ("AWS Error SLOW_DOWN during GetObject operation: Please reduce", StorageError, "answers with errors"),
        ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", AccessDeniedError, "denies access"),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation", StateFileNotFoundError, "no such bucket"),
        ("Bucket 'x' not found", StateFileNotFoundError, "no such bucket"),
        ("AWS Error NO_SUCH_KEY during GetObject operation", StateFileNotFoundError, "is missing"),
        ("AuthorizationHeaderMalformed: HTTP status 301 during HeadBucket", StorageError, "another region"),
        ("google::cloud::Status(UNAVAILABLE: CURL error [7]=Could not connect", StorageError, "does not answer"),
        ("google::cloud::Status(PERMISSION_DENIED: no storage.objects.get", AccessDeniedError, "denies access"),
        (f"{AZURE} [AuthorizationFailure] 403 Server failed", AccessDeniedError, "denies access"),
        (f"{AZURE} [] Fail to get a new connection. Could not connect to server", StorageError, "does not answer"),
        ("curlCode: 6, Could not resolve hostname; Details: Could not resolve host: x", StorageError, "be resolved"),
        ("CURL error [6]=Could not resolve hostname error_info={reason=", StorageError, "cannot be resolved"),
        (f"{HIERARCHY} Fail to get a new connection: x. Could not resolve hostname", StorageError, "be resolved"),
        (f"{HIERARCHY} Fail to get a new connection: x. SSL connect error", StorageError, "TLS connection"),
        (f"{HIERARCHY} Fail to get a new connection: x. Could not connect", StorageError, "does not answer"),
        ("curlCode: 35, SSL connect error; Details: TLS connect error: error:0A00010B", StorageError, "TLS connection"),
        ("curlCode: 60, SSL peer certificate or SSH remote key was not OK", StorageError, "TLS connection"),
        ("CURL error [35]=SSL connect error error_info={reason=", StorageError, "TLS connection"),
        (f"{AZURE} {'x' * 400} AuthorizationPermissionMismatch {'y' * 400}", AccessDeniedError, "denies access"),
        (f"{HIERARCHY} 403", AccessDeniedError, "hierarchical namespace"),
        ("Unable to load libhdfs: libhdfs.so: cannot open", StorageError, "libhdfs"),
        ("something else altogether", StorageError, "cannot be read"),
        ("Error performing GET http://x/b?continuation-token=y - error sending request", StorageError, "not answer"),
        ("Error performing PUT http://x/credentials/y - error sending request", StorageError, "does not answer"),
    ],
)
def test_texts_of_clients(text: str, kind: type[SavepointError], message: str) -> None:
    error = storage_error(OSError(text), "s3://bucket/x")
    assert type(error) is kind
    assert message in error.message
    assert error.facts["path"] == "s3://bucket/x"


def test_long_texts_are_cut_and_missing_files_are_missing() -> None:
    assert len(storage_error(OSError("x" * 10_000), "p").facts["found"]) == MAX_TEXT
    assert isinstance(storage_error(FileNotFoundError("p"), "p"), StateFileNotFoundError)
    assert isinstance(storage_error(PermissionError("p"), "p"), AccessDeniedError)
