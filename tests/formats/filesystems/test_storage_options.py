"""How stores are reached: by options and the environment, never by paths; keys go to the account that they are for."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest

from pyspark_savepoint.formats.errors import OptionError, UnsafePathError
from pyspark_savepoint.formats.filesystems.filesystem import RemoteFileSystem
from pyspark_savepoint.formats.filesystems.remote import StoreTarget, connect
from pyspark_savepoint.formats.filesystems.storage_options import NO_OPTIONS, StorageOptions, StoragePath
from pyspark_savepoint.formats.filesystems.store_clients import client_of
from pyspark_savepoint.formats.metadata.stream_handles import FileStateHandle
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation

MINE = "c@mine.dfs.core.windows.net"
OTHER = "c@other.dfs.core.windows.net"


@pytest.fixture(autouse=True)
def _no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    connect.cache_clear()


# -- options ------------------------------------------------------------------------------------------------


def test_options_are_json_and_go_along_with_their_path() -> None:
    text = '{"endpoint": "http://host:9000/", "maxAttempts": 3, "anonymous": true, "connectTimeout": "2.5"}'
    options = StorageOptions.parse(text)
    assert options == StorageOptions("http://host:9000", max_attempts=3, anonymous=True, connect_timeout=2.5)
    assert StorageOptions.parse(options.to_json()) == options
    path = pickle.loads(pickle.dumps(StoragePath.of("s3://b/x", text)))
    assert (path, StoragePath.options_of(path)) == ("s3://b/x", options)
    assert type(StoragePath.of("s3://b/x", None)) is type(StoragePath.of("s3://b/x", "{}")) is str
    assert StoragePath.options_of("s3://b/x") == NO_OPTIONS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "not a JSON object"),
        ("{", "not a JSON object"),
        ('{"endpont": "x"}', "has no 'endpont'"),
        ('{"secret_key": "x"}', "must not be given in options"),
        ('{"sasToken": "x"}', "must not be given in options"),
        ('{"endpoint": "http://user:pass@host"}', "a value that is not valid"),
        ('{"endpoint": "http://host/path?x"}', "a value that is not valid"),
        ('{"endpoint": "ftp://host"}', "a value that is not valid"),
        ('{"endpoint": ["x"]}', "a value that is not valid"),
        ('{"anonymous": "maybe"}', "a value that is not valid"),
        ('{"maxAttempts": "many"}', "a value that is not valid"),
        ('{"maxAttempts": 0}', "a value that is not valid"),
        ('{"region": ""}', "a value that is not valid"),
    ],
)
def test_options_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        StorageOptions.parse(text)


@pytest.mark.parametrize(
    ("store", "variables", "expected"),
    [
        ("s3", {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}, {"endpoint": "http://b"}),
        ("s3", {"AWS_ENDPOINT_URL": "http://a", "AWS_MAX_ATTEMPTS": "7"}, {"endpoint": "http://a", "max_attempts": 7}),
        ("s3", {"AZURE_STORAGE_BLOB_ENDPOINT": "http://a", "STORAGE_EMULATOR_HOST": "b"}, {}),
        ("gs", {"STORAGE_EMULATOR_HOST": "h:4443", "AWS_ENDPOINT_URL": "a"}, {"endpoint": "h:4443", "anonymous": True}),
        ("abfs", {"AZURE_STORAGE_BLOB_ENDPOINT": "https://a", "AWS_CA_BUNDLE": "x"}, {"endpoint": "https://a"}),
    ],
)
def test_what_options_do_not_say_the_environment_does(
    store: str, variables: dict[str, str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert NO_OPTIONS.with_environment(store).given() == expected
    assert StorageOptions(endpoint="http://own").with_environment(store).endpoint == "http://own"


def test_the_environment_is_followed_at_each_request_and_read_once_as_long_as_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many threads ask for the store of each request: what is in the variables is not taken apart each time."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://a")
    before = NO_OPTIONS.with_environment("s3")
    assert NO_OPTIONS.with_environment("s3") is before
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://b")
    assert (before.endpoint, NO_OPTIONS.with_environment("s3").endpoint) == ("http://a", "http://b")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not one")
    for _ in range(2):
        with pytest.raises(OptionError, match="the variable AWS_ENDPOINT_URL"):
            NO_OPTIONS.with_environment("s3")


# -- credentials --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authority", "owner", "recorded", "sent"),
    [
        (MINE, None, False, True),
        (MINE, "mine", False, True),
        (MINE, "mine", True, True),
        (OTHER, "mine", False, False),
        (OTHER, None, True, False),
        (OTHER, "mine", True, False),
    ],
)
@pytest.mark.parametrize(("variable", "secret"), [("SAS_TOKEN", "sig=mArKeR"), ("KEY", "bUFyS2VS")])
def test_keys_of_azure_go_to_their_account_only(
    authority: str,
    owner: str | None,
    recorded: bool,
    sent: bool,
    variable: str,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"AZURE_STORAGE_{variable}", secret)
    if owner:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", owner)
    client, _ = connect("abfss", authority, NO_OPTIONS, recorded)
    assert (secret.encode() in pickle.dumps(client)) == sent


def test_what_a_snapshot_names_is_marked_and_reached_as_the_snapshot_is() -> None:
    options = StorageOptions(endpoint="http://host:1")
    location = SnapshotLocation(RemoteFileSystem("abfss", MINE, options), "/sp", allow_outside=True, options=options)
    for authority, recorded in ((OTHER, True), (MINE, False)):
        filesystem, _ = location._locate_outside(f"abfss://{authority}/elsewhere/x")
        assert isinstance(filesystem, RemoteFileSystem)
        assert (filesystem.authority, filesystem.options, filesystem.recorded) == (authority, options, recorded)


@pytest.mark.parametrize(
    "path",
    [
        "s3://bucket/x?endpoint_override=evil",
        "s3a://bucket/x?scheme=http",
        "abfss://c@mine.dfs.core.windows.net/x?blob_storage_authority=evil&enable_tls=false",
        "gs://bucket/sp/x?endpoint_override=evil",
    ],
)
@pytest.mark.parametrize("allow_outside", [False, True])
def test_handles_choose_no_endpoint(path: str, allow_outside: bool) -> None:
    location = SnapshotLocation(RemoteFileSystem("gs", "bucket"), "/sp", allow_outside)
    with pytest.raises(UnsafePathError, match=r"the path of a handle is not valid(.|\n)*to do: the file is incomplete"):
        location.resolve(FileStateHandle(path, 1))


@pytest.mark.parametrize(
    ("region", "endpoint"),
    [
        ("eu-central-1", "https://s3.eu-central-1.amazonaws.com"),
        ("cn-northwest-1", "https://s3.cn-northwest-1.amazonaws.com.cn"),
    ],
)
def test_the_host_of_a_region(region: str, endpoint: str) -> None:
    options = StorageOptions(region=region, anonymous=True)
    assert client_of(StoreTarget("s3", "bucket", options, False))().arguments["endpoint"] == endpoint
