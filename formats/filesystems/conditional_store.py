r"""Conditional publication of objects: only if the object does not exist, or still has the version that was read.

S3 has ``If-None-Match`` and ``If-Match`` on PutObject, Google has generations, Azure ETags. pyarrow supports none of
them, so ``_metadata`` is read and published through obstore (Rust's ``object_store``), and all else through pyarrow:

=============  ========================================  ============================================================
\              pyarrow.fs                                obstore
=============  ========================================  ============================================================
conditions     none                                      put if absent, put if unchanged, get if unchanged
ranges         4 KB 0.34 ms, 256 KB 1.4 ms, 2 MB 6.8 ms  0.16 ms, 0.25 ms, 1.5 ms (same machine, 2 cores, no TLS)
retries        by the SDK, not visible                   none here: ``publication`` handles every attempt
credentials    the SDK's chain: environment, profiles,   environment, web identity, containers, instances; profiles
               SSO, assumed roles, instances             with keys by ``aws_profiles``, other profiles through boto3
wheels         needed anyway                             6 MB: Linux, macOS, Windows; one for all CPythons from 3.11 on
=============  ========================================  ============================================================

Other reads use pyarrow, which finds more credentials: a remote store takes 10 ms and more to begin an answer, and
read-ahead hides that (``remote_input``). Where obstore cannot use the same identity as pyarrow, or the store does not
support conditions, pyarrow publishes with a warning: then one of two concurrent writes may be lost, unless both are of
this package (``publication``). Whether a store honours conditions is tried (:meth:`ConditionalStore.honours`).

Clients have no support for AWS profiles: their keys are read here, from ``~/.aws/credentials`` and ``~/.aws/config``,
with the same precedence as in the AWS SDK. Where a profile names another source (SSO, a role, a process), boto3
provides the credentials, if it is installed.
"""

from __future__ import annotations

import configparser
import functools
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from pyspark_savepoint.formats.errors import (
    ConcurrentWriteError,
    OutputError,
    SavepointError,
    StateFileNotFoundError,
    StoreBusyError,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.filesystems.remote import (
    CONNECT_TIMEOUT,
    MAX_ATTEMPTS,
    REQUEST_TIMEOUT,
    StoreTarget,
    azure_settings,
    bucket_of,
    parts_of,
    region_of,
    storage_error,
)
from pyspark_savepoint.formats.io.local_files import read_regular, too_large
from pyspark_savepoint.formats.io.snapshot_files import MAX_PUBLISHED, Published
from pyspark_savepoint.formats.redaction import redacted

#: Keys are read again after this time, because key rotation rewrites the file.
FRESH = timedelta(minutes=5)
SOURCES = ("role_arn", "sso_session", "sso_start_url", "credential_process", "credential_source")


@dataclass(frozen=True)
class ProfileKeys:
    """A credential provider for obstore that returns the current keys of a profile."""

    name: str

    def __call__(self) -> dict[str, Any]:
        """Return the keys, with an expiry time."""
        profile = _profile(self.name)
        return {
            "access_key_id": profile["aws_access_key_id"],
            "secret_access_key": profile["aws_secret_access_key"],
            "token": profile.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + FRESH,
        }


def profile_credentials() -> Any:
    """Return a provider of the credentials that the AWS SDK would take from a profile; None if it uses another source.

    Raises LookupError if the profile names a source that requires the SDK or boto3.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        return None
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    profile = _profile(name)
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        return ProfileKeys(name)
    source = next((key for key in SOURCES if key in profile), None)
    if source is None:
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise LookupError(f"profile {name!r} has {source}, which needs boto3: install it") from None
    return Boto3CredentialProvider()


def _profile(name: str) -> Mapping[str, str]:
    """Return the entries of a profile from both files; those of the credentials file take precedence."""
    entries: dict[str, str] = {}
    for variable, path, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name),
    ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(os.path.expanduser(os.environ.get(variable) or path), encoding="utf-8")
        except (configparser.Error, ValueError):
            continue
        if parser.has_section(section):
            entries.update(parser.items(section))
    return entries


ADDRESS = re.compile(r"[0-9.]+(?::|$)|\[")
STATUS = re.compile(r"status code: (\d{3})")
#: Status codes of stores without conditional writes.
NO_CONDITIONS = frozenset({"405", "501"})
#: Status codes of a proxy or timeout, after which the store may still complete the request.
IN_BETWEEN = frozenset({"408", "502", "504"})
BUSY = frozenset({"429", "500", "503"})
#: The request timeout grows by one second for each of these bytes.
BYTES_PER_SECOND = 1 << 22
#: Maximum size of a file of certificates, in bytes.
MAX_CERTIFICATES = 1 << 26
#: Larger objects are written with a separate client, which has a longer timeout.
USUAL = 1 << 20


#: A version that no object has, in the form of every store: an ETag, and a generation of Google's.
NEVER = (("e_tag", '"0x8D0000000000000"'), ("version", "1"))
#: Seconds between attempts to try the conditions of a store.
PROBE_PAUSES = (0.1, 0.3, 1.0)


class _Process:
    """Whether this process can use obstore: a child of a process that used it has none of its threads."""

    used = False
    forked = False

    @classmethod
    def after_fork(cls) -> None:
        cls.forked = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.after_fork)


@dataclass(frozen=True)
class _Client:
    """Arguments of an obstore client; ``patience`` is the timeout of a small request in seconds."""

    kind: str
    arguments: Mapping[str, Any] = field(repr=False)
    connect_timeout: float = CONNECT_TIMEOUT
    patience: float = REQUEST_TIMEOUT
    attempts: int = MAX_ATTEMPTS
    client_options: Mapping[str, Any] = field(default_factory=dict)

    def open(self, size: int, attempts: int) -> Any:
        """Return a client for objects of ``size`` bytes that makes ``attempts`` attempts."""
        from obstore import store

        kinds = {"s3": store.S3Store, "gs": store.GCSStore, "abfs": store.AzureStore}
        timeouts = {
            "connect_timeout": timedelta(seconds=self.connect_timeout),
            "timeout": timedelta(seconds=self.patience + size / BYTES_PER_SECOND),
        }
        return kinds[self.kind](
            **self.arguments,
            client_options={**timeouts, **self.client_options},
            retry_config={"max_retries": attempts - 1, "retry_timeout": timedelta(minutes=2)},
        )


@redacted
@dataclass
class ConditionalStore:
    """A bucket or container whose objects are read and written as a whole."""

    client: _Client
    uri: str
    #: Whether the store has refused a put whose condition did not hold, by whether that would have replaced an object.
    honoured: dict[bool, bool] = field(default_factory=dict)

    @functools.cached_property
    def _reader(self) -> Any:
        return self.client.open(1 << 30, self.client.attempts)

    @functools.cached_property
    def _writer(self) -> Any:
        return self.client.open(USUAL, 1)

    def get(self, path: str, limit: int = MAX_PUBLISHED) -> Published | None:
        """Return an object, read in one request and so in one version; None if it does not exist."""
        try:
            _Process.used = True
            response = self._reader.get(path.lstrip("/"))
            size = int(response.meta["size"])
            data = bytes(response.bytes()) if size <= limit else b""
        except FileNotFoundError:
            return None
        except _errors() as error:
            meaning = self._meaning(error, path)
            if isinstance(meaning, StateFileNotFoundError) and "bucket" not in meaning.message:
                return None
            raise meaning from None
        if size > limit:
            raise too_large(self.uri + path, size, limit)
        names = ("e_tag", "version")
        return Published(data, tuple((name, response.meta[name]) for name in names if response.meta.get(name)))

    def first_names(self, path: str, limit: int) -> tuple[str, ...]:
        """Return at most this many names of objects below a path, relative to it, from one page of a listing."""
        prefix = path.strip("/")
        try:
            _Process.used = True
            pages: Any = iter(self._reader.list(prefix or None, chunk_size=limit))
            page: Any = next(pages, [])
        except _errors() as error:
            raise self._meaning(error, path) from None
        return tuple(one["path"].removeprefix(prefix).lstrip("/") for one in page[:limit])

    def put(self, path: str, data: bytes, over: Published | None) -> None:
        """Publish in one attempt; NotImplementedError if the store has no conditional writes."""
        mode = "create" if over is None else dict(over.version)
        try:
            _Process.used = True
            writer = self._writer if len(data) <= USUAL else self.client.open(len(data), 1)
            writer.put(path.lstrip("/"), data, mode=mode, use_multipart=False)
        except _errors() as error:
            self._refuse(error, path)

    def honours(self, path: str, replacing: bool) -> bool:
        """Return whether the store refuses a put whose condition does not hold, by trying it once per process.

        ``path`` is an existing empty object of this write: the put would create it, or replace a version that it never
        had. Raise an error if there is no clear answer, NotImplementedError if the store has no conditional writes.
        """
        if replacing not in self.honoured:
            over = Published(b"", NEVER) if replacing else None
            for pause in (*PROBE_PAUSES, None):
                try:
                    self.put(path, b"", over)
                    self.honoured[replacing] = False
                    break
                except ConcurrentWriteError:
                    self.honoured[replacing] = True
                    break
                except (StoreBusyError, UncertainOutcomeError):
                    if pause is None:
                        raise
                    time.sleep(pause)
        return self.honoured[replacing]

    def _refuse(self, error: Exception, path: str) -> None:
        """Raise the error that corresponds to a failed put, or an uncertain outcome if there was no answer."""
        from obstore import exceptions

        status = STATUS.search(str(error))
        meaning = self._meaning(error, path)
        if isinstance(error, exceptions.NotSupportedError) or (status and status[1] in NO_CONDITIONS):
            raise NotImplementedError(meaning.facts.get("found", meaning.message)) from None
        if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
            # 409: two concurrent requests; the store accepted the other one, or neither.
            raise ConcurrentWriteError(
                "another writer has published a savepoint at this path",
                path=self.uri + path,
                remedy="nothing of this write was published: check the savepoint that is there now, then write again",
            ) from None
        kind: type[OutputError] = OutputError
        if status is None or status[1] in IN_BETWEEN:
            kind = UncertainOutcomeError
        elif status[1] in BUSY:
            kind = StoreBusyError
        raise kind(
            "a file of the savepoint cannot be written",
            path=self.uri + path,
            found=f"{meaning.message}: {meaning.facts.get('found', '')}",
            remedy=meaning.facts.get("remedy"),
        ) from None

    def _meaning(self, error: Exception, path: str) -> SavepointError:
        text = str(error).partition("\n\nDebug source")[0]
        return storage_error(OSError(text), self.uri + path)


def _errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that the client raises."""
    from obstore.exceptions import BaseError

    return BaseError, OSError, ValueError


@functools.lru_cache(maxsize=16)
def conditional_store(target: StoreTarget) -> ConditionalStore:
    """Return the store of a path, with pyarrow's endpoint and identity; LookupError explains why there is none."""
    if target.scheme not in CLIENTS:
        raise LookupError(f"{target.scheme}:// has no conditional writes")
    if _Process.forked:
        raise LookupError("this process was forked from one that had used obstore")
    return ConditionalStore(CLIENTS[target.scheme](target), f"{target.scheme}://{target.authority}")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=conditional_store.cache_clear)


def _s3(target: StoreTarget) -> _Client:
    bucket, options = bucket_of(target), target.options
    if options.role_arn:
        raise LookupError("option roleArn is used for reads only: name the role in an AWS profile")
    region = region_of(bucket, options)
    scheme, host = parts_of(options.endpoint)
    scheme, host = scheme or "https", host or f"s3.{region}.amazonaws.com"
    if options.virtual_hosted and ADDRESS.match(host):
        raise LookupError("virtualHosted needs an endpoint with a host name, not an IP address")
    endpoint = f"{scheme}://{bucket}.{host}" if options.virtual_hosted else f"{scheme}://{host}"
    return _Client(
        "s3",
        {
            "bucket": bucket,
            "region": region,
            # Both keys are set, because otherwise an endpoint in the environment would take precedence.
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
            "virtual_hosted_style_request": bool(options.virtual_hosted),
            "skip_signature": bool(options.anonymous),
            "credential_provider": None if options.anonymous else profile_credentials(),
        },
        options.connect_timeout or CONNECT_TIMEOUT,
        options.request_timeout or REQUEST_TIMEOUT,
        options.max_attempts or MAX_ATTEMPTS,
        {"allow_http": scheme == "http", **_certificates(options.ca_file)},
    )


def _certificates(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    return {"root_certificate": read_regular(path, MAX_CERTIFICATES).decode()}


def _gcs(target: StoreTarget) -> _Client:
    bucket, options = bucket_of(target), target.options
    if options.service_account:
        raise LookupError("serviceAccount is impersonated by pyarrow only")
    arguments: dict[str, Any] = {"bucket": bucket, "skip_signature": bool(options.anonymous)}
    scheme, host = parts_of(options.endpoint)
    scheme = scheme or ("http" if host and options.anonymous else "https")
    if options.anonymous:
        # The client requests a token before each put, even unsigned: by default from the cloud's metadata service.
        arguments["credential_provider"] = _no_token
    if host:
        arguments["base_url"] = f"{scheme}://{host}"
    return _Client("gs", arguments, client_options={"allow_http": scheme == "http"})


def _no_token() -> dict[str, Any]:
    """Return a placeholder for a token, for stores that need no credentials."""
    return {"token": "anonymous", "expires_at": None}


def _azure(target: StoreTarget) -> _Client:
    account, container, settings = azure_settings(target)
    owner = os.environ.get("AZURE_STORAGE_ACCOUNT")
    if target.recorded or (owner and owner != account):
        raise LookupError(f"the keys in the environment are not those of account {account!r}")
    host = settings.get("blob_storage_authority") or ".blob.core.windows.net"
    scheme = settings.get("blob_storage_scheme") or "https"
    arguments = {
        "container_name": container,
        "account_name": account,
        "endpoint": f"{scheme}://{account}{host}" if host.startswith(".") else f"{scheme}://{host}/{account}",
        "account_key": settings.get("account_key"),
        "sas_key": (settings.get("sas_token") or "").removeprefix("?"),
        "client_id": settings.get("client_id"),
    }
    given = {name: value for name, value in arguments.items() if value}
    return _Client("abfs", given, client_options={"allow_http": scheme == "http"})


CLIENTS: Mapping[str, Callable[[StoreTarget], _Client]] = MappingProxyType(
    {"s3": _s3, "gs": _gcs, "abfs": _azure, "abfss": _azure}
)
