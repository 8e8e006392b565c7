"""Connections to object stores and HDFS, with bounded timeouts and retries.

=====================  ===============================================================================================
s3                     credentials and profile from the AWS SDK's chain: ``AWS_ACCESS_KEY_ID``, ``AWS_PROFILE``,
                       instance roles, ...
gs                     application default credentials (``GOOGLE_APPLICATION_CREDENTIALS``, instance roles)
abfs, abfss            ``AZURE_STORAGE_KEY`` or ``AZURE_STORAGE_SAS_TOKEN``, for the account in
                       ``AZURE_STORAGE_ACCOUNT``, or without it that of the user's path; else Azure's default
                       credentials
hdfs, viewfs           Hadoop's own configuration, through libhdfs
=====================  ===============================================================================================

Credentials come from the environment, endpoints and the like from :mod:`storage_options`. None of them comes from a
path, because paths may come from an untrusted snapshot. The client of the store retries failing requests for a minute
or two in all.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import OptionError, SavepointError, StorageError
from pyspark_savepoint.formats.filesystems.remote_errors import (
    CLIENT_ERRORS,
    IN_ENVIRONMENT,
    MISSING_BUCKET,
    storage_error,
)
from pyspark_savepoint.formats.filesystems.storage_options import OPTION, StorageOptions
from pyspark_savepoint.formats.redaction import shown

CONNECT_TIMEOUT, REQUEST_TIMEOUT = 5.0, 10.0
MAX_ATTEMPTS = 5
RETRY_LIMIT = 60.0
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,254}")
AZURE = re.compile(r"([A-Za-z0-9$][A-Za-z0-9$\-]{0,62})@([A-Za-z0-9][A-Za-z0-9\-]{0,62})(?:\.(.+))?")
#: Hosts of Azure: tokens are sent to no other host unless the environment or an option names it.
AZURE_HOSTS = re.compile(
    r"(?:z[0-9]{1,2}\.)?(?:dfs|blob)\.(core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|"
    r"core\.cloudapi\.de|storage\.azure\.net|fabric\.microsoft\.com)"
)
Connection = tuple[arrow_fs.FileSystem, str]


@dataclass(frozen=True, slots=True, repr=False)
class StoreTarget:
    """The target of a connection."""

    scheme: str
    authority: str
    options: StorageOptions
    recorded: bool

    def __repr__(self) -> str:
        return shown(f"StoreTarget('{self.scheme}://{self.authority}', {self.options!r}, recorded={self.recorded})")


@functools.lru_cache(maxsize=16)
def connect(scheme: str, authority: str, options: StorageOptions, recorded: bool = False) -> Connection:
    """Return the live file system, cached per process and arguments, and the prefix of its paths.

    ``recorded`` means that a snapshot names the location, not the user: then it gets no keys of a single account.
    """
    uri = f"{scheme}://{authority}"
    try:
        return CONNECTORS[scheme](StoreTarget(scheme, authority, options, recorded))
    except (ImportError, AttributeError, TypeError) as error:
        raise StorageError(
            "this build of pyarrow cannot open this storage with these options",
            path=uri,
            found=str(error),
            remedy="install the newest pyarrow, from its wheels",
        ) from None
    except CLIENT_ERRORS as error:
        if isinstance(error, SavepointError):
            raise
        raise storage_error(error, uri) from None


# A forked child process does not have the threads of its parent's clients.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=connect.cache_clear)


def bucket_of(place: StoreTarget) -> str:
    """Return the validated name of a bucket, which becomes part of a host name."""
    scheme, bucket = place.scheme, place.authority
    if "@" in bucket:
        raise OptionError("a path must not contain credentials", path=f"{scheme}://...", remedy=IN_ENVIRONMENT)
    if not BUCKET.fullmatch(bucket):
        what = "a bucket cannot have that name" if bucket else "the path names no bucket"
        raise OptionError(what, path=f"{scheme}://{bucket}", expected=f"{scheme}://bucket/folder")
    return bucket


def parts_of(endpoint: str | None) -> tuple[str | None, str | None]:
    """Split an endpoint into scheme and host."""
    scheme, mark, host = (endpoint or "").partition("://")
    return (scheme, host) if mark else (None, scheme or None)


def _s3(place: StoreTarget) -> Connection:
    bucket, options = bucket_of(place), place.options
    scheme, host = parts_of(options.endpoint)
    settings: dict[str, Any] = {
        "anonymous": options.anonymous,
        "endpoint_override": host,
        "scheme": scheme,
        "role_arn": options.role_arn,
        "external_id": options.external_id,
        "tls_ca_file_path": options.ca_file,
        "force_virtual_addressing": options.virtual_hosted,
        "connect_timeout": options.connect_timeout or CONNECT_TIMEOUT,
        "request_timeout": options.request_timeout or REQUEST_TIMEOUT,
        "retry_strategy": arrow_fs.AwsStandardS3RetryStrategy(options.max_attempts or MAX_ATTEMPTS),
    }
    return arrow_fs.S3FileSystem(region=region_of(bucket, options), **_given(settings)), bucket


def region_of(bucket: str, options: StorageOptions) -> str:
    """Return the region from the option, else from the bucket, else (if the query fails) from the environment."""
    known = options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if options.region or options.endpoint:
        return known or "us-east-1"
    try:
        return str(arrow_fs.resolve_s3_region(bucket))
    except OSError as error:
        if known is None or MISSING_BUCKET.search(str(error)):
            raise
        return known


def _gcs(place: StoreTarget) -> Connection:
    bucket, options = bucket_of(place), place.options
    scheme, host = parts_of(options.endpoint)
    settings: dict[str, Any] = {
        "anonymous": options.anonymous,
        "scheme": scheme or ("http" if host and options.anonymous else None),
        "endpoint_override": host,
        "project_id": options.project_id,
        "target_service_account": options.service_account,
        "retry_time_limit": timedelta(seconds=options.retry_limit or RETRY_LIMIT),
    }
    return arrow_fs.GcsFileSystem(**_given(settings)), bucket


def azure_settings(place: StoreTarget) -> tuple[str, str, dict[str, str | None]]:
    """Parse ``container@account.dfs.core.windows.net``; return account, container and settings of pyarrow."""
    match = AZURE.fullmatch(place.authority)
    if match is None:
        raise OptionError(
            "the path names no container and account",
            path=f"abfss://{place.authority}",
            expected="abfss://container@account.dfs.core.windows.net/folder",
        )
    container, account, suffix = match.groups()
    settings = {
        **_azure_hosts(account, suffix, place),
        **_azure_keys(account, place.recorded),
        "client_id": place.options.client_id,
    }
    return account, container, settings


def _azure(place: StoreTarget) -> Connection:
    account, container, settings = azure_settings(place)
    return arrow_fs.AzureFileSystem(account, **_given(settings)), container


def _azure_hosts(account: str, suffix: str | None, place: StoreTarget) -> dict[str, str | None]:
    """Return the hosts of the services: from the options, else from the path if it names a host of Azure."""
    options = place.options
    if options.endpoint is None:
        if suffix is not None and not AZURE_HOSTS.fullmatch(suffix):
            raise OptionError(
                "the host in the path is not a host of Azure",
                path=f"abfss://{place.authority}",
                expected="abfss://container@account.dfs.core.windows.net/folder",
                remedy=f"set the endpoint: AZURE_STORAGE_BLOB_ENDPOINT in the environment, or option '{OPTION}'",
            )
        host = suffix and "." + suffix.replace("blob.", "dfs.", 1)
        return {"dfs_storage_authority": host, "blob_storage_authority": host and host.replace("dfs.", "blob.", 1)}
    blob_scheme, blob = parts_of(options.endpoint)
    dfs_scheme, dfs = parts_of(options.dfs_endpoint or options.endpoint.replace(".blob.", ".dfs.", 1))
    return {
        # Azure's own endpoints begin with the account name, which pyarrow adds again.
        "blob_storage_authority": blob and blob.removeprefix(account if blob.startswith(account + ".") else ""),
        "dfs_storage_authority": dfs and dfs.removeprefix(account if dfs.startswith(account + ".") else ""),
        "blob_storage_scheme": blob_scheme,
        "dfs_storage_scheme": dfs_scheme,
    }


def _azure_keys(account: str, recorded: bool) -> dict[str, str | None]:
    """Return the key or token of the environment, if it belongs to this account."""
    owner = os.environ.get("AZURE_STORAGE_ACCOUNT")
    if owner != account if owner else recorded:
        return {}
    key, token = os.environ.get("AZURE_STORAGE_KEY"), os.environ.get("AZURE_STORAGE_SAS_TOKEN", "").strip()
    # pyarrow appends the token to URLs unchanged.
    return {"account_key": key} if key else {"sas_token": token and "?" + token.removeprefix("?")}


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that have a value: some pyarrow releases do not know all of them."""
    return {name: value for name, value in settings.items() if value}


def _hadoop(place: StoreTarget) -> Connection:
    filesystem, prefix = arrow_fs.FileSystem.from_uri(f"{place.scheme}://{place.authority or 'default'}/")
    return filesystem, prefix.rstrip("/")


CONNECTORS: Mapping[str, Callable[[StoreTarget], Connection]] = MappingProxyType(
    {
        "s3": _s3,
        "gs": _gcs,
        "abfs": _azure,
        "abfss": _azure,
        "hdfs": _hadoop,
        "viewfs": _hadoop,
    }
)
