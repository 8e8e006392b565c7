"""Connections to object stores and HDFS, with bounded patience; and what their errors mean.

=====================  ===============================================================================================
s3                     credentials and profile as the AWS SDK finds them: ``AWS_ACCESS_KEY_ID``, ``AWS_PROFILE``,
                       instance roles, ...; another endpoint by ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``
gs                     application default credentials (``GOOGLE_APPLICATION_CREDENTIALS``, instance roles)
abfs, abfss            ``AZURE_STORAGE_KEY`` or ``AZURE_STORAGE_SAS_TOKEN``, else Azure's default credentials
hdfs, viewfs           Hadoop's own configuration, through libhdfs
=====================  ===============================================================================================

What is not in the environment is given in the query of the path: ``s3://bucket/savepoint?endpoint_override=host:9000``.
Secrets are not taken there, for paths are shown in plans and messages. A request that fails for a while is tried again
by the client of the store: in all a minute or two, never for ever.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import OptionError, SavepointError, StorageError, did_you_mean
from pyspark_savepoint.formats.remote_errors import IN_ENVIRONMENT, MISSING_BUCKET, storage_error

CONNECT_TIMEOUT, REQUEST_TIMEOUT = 5.0, 10.0
MAX_ATTEMPTS = 5
RETRY_LIMIT = 60.0
#: Options that the query of a path may have, by scheme.
QUERY_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "s3": (
            "endpoint_override", "scheme", "region", "anonymous", "role_arn", "external_id", "tls_ca_file_path",
            "force_virtual_addressing", "connect_timeout", "request_timeout", "max_attempts",
        ),
        "gs": (
            "endpoint_override", "scheme", "anonymous", "project_id", "target_service_account", "retry_limit_seconds",
        ),
        "abfs": ("blob_storage_authority", "dfs_storage_authority", "enable_tls", "tenant_id", "client_id"),
        "hdfs": ("user", "replication", "kerb_ticket"),
    }
)  # fmt: skip
SECRETS = re.compile(r"key|secret|token|password|sig", re.IGNORECASE)
Connection = tuple[arrow_fs.FileSystem, str]


@functools.lru_cache(maxsize=16)
def connect(scheme: str, authority: str, query: str) -> Connection:
    """The live file system, one per process and place, and what its paths begin with."""
    uri = f"{scheme}://{authority}"
    options = _Options.parse(scheme, query, uri)
    try:
        return CONNECTORS[scheme](authority, options)
    except (ImportError, AttributeError, TypeError) as error:
        raise StorageError(
            "this pyarrow cannot reach that storage, or not with these options",
            path=uri,
            found=str(error),
            remedy="install the newest pyarrow, from its wheels",
        ) from None
    except OSError as error:
        if isinstance(error, SavepointError):
            raise
        raise storage_error(error, uri) from None


# A child process has no threads of its parent's clients.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=connect.cache_clear)


class _Options:
    """The options in a query, taken one by one."""

    def __init__(self, given: Mapping[str, str], uri: str) -> None:
        self.given = given
        self.uri = uri

    @classmethod
    def parse(cls, scheme: str, query: str, uri: str) -> _Options:
        """Names and values; OptionError for an unknown name, or for a secret."""
        known = QUERY_OPTIONS[{"abfss": "abfs", "viewfs": "hdfs"}.get(scheme, scheme)]
        given: dict[str, str] = {}
        for part in filter(None, query.split("&")):
            name, _, value = part.partition("=")
            if name in known:
                given[name] = value
            elif SECRETS.search(name):
                raise OptionError(f"{name!r} does not belong in a path", path=uri, remedy=IN_ENVIRONMENT)
            else:
                raise OptionError(
                    f"the path has an option {name!r} that {scheme} does not have",
                    path=uri,
                    remedy=did_you_mean(name, known),
                )
        return cls(given, uri)

    def text(self, name: str) -> str | None:
        """An option's value, where it is given."""
        return self.given.get(name) or None

    def flag(self, name: str, default: bool = False) -> bool:
        """A value of ``true`` or ``false``."""
        value = self.given.get(name, str(default)).lower()
        if value not in ("true", "false"):
            raise self._wrong(name, "true or false")
        return value == "true"

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number within bounds."""
        value = self.given.get(name, str(default))
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) or not low <= float(value) <= high:
            raise self._wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def _wrong(self, name: str, expected: str) -> OptionError:
        return OptionError(
            f"the option {name!r} of the path cannot be that", path=self.uri, expected=expected, found=self.given[name]
        )


def _s3(bucket: str, options: _Options) -> Connection:
    if not bucket or "@" in bucket:
        what = "credentials do not belong in a path" if bucket else "the path names no bucket"
        raise OptionError(what, path="s3://...", expected="s3://bucket/folder", remedy=IN_ENVIRONMENT)
    endpoint = (
        options.text("endpoint_override")
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or ""
    )
    scheme, separator, host = endpoint.partition("://")
    settings: dict[str, Any] = {
        "anonymous": options.flag("anonymous"),
        "endpoint_override": (host if separator else endpoint).rstrip("/") or None,
        "scheme": options.text("scheme") or (scheme if separator else None),
        "role_arn": options.text("role_arn"),
        "external_id": options.text("external_id"),
        "tls_ca_file_path": options.text("tls_ca_file_path"),
        "force_virtual_addressing": options.flag("force_virtual_addressing"),
        "connect_timeout": options.number("connect_timeout", CONNECT_TIMEOUT, 1, 3600),
        "request_timeout": options.number("request_timeout", REQUEST_TIMEOUT, 1, 3600),
    }
    attempts = int(options.number("max_attempts", MAX_ATTEMPTS, 1, 100))
    settings["retry_strategy"] = arrow_fs.AwsStandardS3RetryStrategy(attempts)
    region = options.text("region") or _region(bucket, bool(endpoint))
    return arrow_fs.S3FileSystem(region=region, **_given(settings)), bucket


def _region(bucket: str, has_endpoint: bool) -> str:
    """Where the bucket says it is; what the environment says, where it cannot be asked."""
    known = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if has_endpoint:
        return known or "us-east-1"
    try:
        return str(arrow_fs.resolve_s3_region(bucket))
    except OSError as error:
        if known is None or MISSING_BUCKET.search(str(error)):
            raise
        return known


def _gcs(bucket: str, options: _Options) -> Connection:
    settings: dict[str, Any] = {
        "anonymous": options.flag("anonymous"),
        "scheme": options.text("scheme"),
        "endpoint_override": options.text("endpoint_override"),
        "project_id": options.text("project_id"),
        "target_service_account": options.text("target_service_account"),
        "retry_time_limit": timedelta(seconds=options.number("retry_limit_seconds", RETRY_LIMIT, 1, 86_400)),
    }
    return arrow_fs.GcsFileSystem(**_given(settings)), bucket


def _azure(authority: str, options: _Options) -> Connection:
    """``container@account.dfs.core.windows.net``: other clouds have other suffixes."""
    match = re.fullmatch(r"([^@]+)@([^@.]+)\.?(.*)", authority)
    if match is None:
        raise OptionError(
            "the path names no container and account",
            path=f"abfss://{authority}",
            expected="abfss://container@account.dfs.core.windows.net/folder",
        )
    container, account, suffix = match.groups()
    scheme = "https" if options.flag("enable_tls", True) else "http"
    dfs = "." + suffix if suffix.startswith("dfs.") else None
    key, sas = os.environ.get("AZURE_STORAGE_KEY"), os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    settings = {
        "account_key": key,
        "sas_token": None if key else sas,
        "blob_storage_authority": options.text("blob_storage_authority") or (dfs and dfs.replace("dfs", "blob", 1)),
        "dfs_storage_authority": options.text("dfs_storage_authority") or dfs,
        "blob_storage_scheme": scheme,
        "dfs_storage_scheme": scheme,
        "tenant_id": options.text("tenant_id"),
        "client_id": options.text("client_id"),
    }
    return arrow_fs.AzureFileSystem(account, **_given(settings)), container


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that say nothing: releases of pyarrow do not know all of them."""
    return {name: value for name, value in settings.items() if value is not None and value is not False}


def _hadoop(scheme: str) -> Callable[[str, _Options], Connection]:
    def of(authority: str, options: _Options) -> Connection:
        query = "&".join(f"{name}={value}" for name, value in options.given.items())
        root = f"{scheme}://{authority or 'default'}/" + (f"?{query}" if query else "")
        filesystem, prefix = arrow_fs.FileSystem.from_uri(root)
        return filesystem, prefix.rstrip("/")

    return of


CONNECTORS: Mapping[str, Callable[[str, _Options], Connection]] = MappingProxyType(
    {
        "s3": _s3,
        "gs": _gcs,
        "abfs": _azure,
        "abfss": _azure,
        "hdfs": _hadoop("hdfs"),
        "viewfs": _hadoop("viewfs"),
    }
)
