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
path, because paths may come from an untrusted snapshot. The client of the store retries failing requests for
:data:`RETRY_LIMIT` seconds in all.

Errors of the clients are classified here, because they report the cause only as text. Hadoop distinguishes the same
cases: ``S3AUtils.translateException`` and similar.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs as arrow_fs

from pyspark_savepoint.formats.errors import (
    MISSING,
    AccessDeniedError,
    CorruptStateError,
    OptionError,
    OutputError,
    SavepointError,
    StateFileNotFoundError,
    StorageError,
    UncertainOutcomeError,
)
from pyspark_savepoint.formats.filesystems.storage_options import IN_ENVIRONMENT, OPTION, StorageOptions
from pyspark_savepoint.formats.redaction import elide, redact, shown

#: Exceptions of the clients, including those that are not derived from OSError.
CLIENT_ERRORS: tuple[type[Exception], ...] = (OSError, pa.ArrowException)
MISSING_BUCKET = re.compile(
    r"NO_SUCH_BUCKET|NoSuchBucket|Bucket '[^']*' not found|ContainerNotFound"
    r"|specified (bucket|container) does not exist",
    re.I,
)
MEANINGS: tuple[tuple[re.Pattern[str], type[SavepointError], str, str], ...] = (
    (
        re.compile(r"libhdfs|libjvm"),
        StorageError,
        "HDFS is reached through libhdfs, which is not on this machine",
        "install a Hadoop client on driver and executors, and set JAVA_HOME, HADOOP_HOME (or ARROW_LIBHDFS_DIR) and "
        "CLASSPATH=$(hadoop classpath --glob)",
    ),
    (
        MISSING_BUCKET,
        StateFileNotFoundError,
        "there is no such bucket or container",
        "check its name; to use an endpoint other than the cloud's own, set AWS_ENDPOINT_URL or the like in the "
        "environment, or endpoint in option 'storageOptions'",
    ),
    (
        re.compile(
            r"PERMANENT_REDIRECT|PermanentRedirect|status(?: code:)? 301|AUTHORIZATION_HEADER_MALFORMED", re.IGNORECASE
        ),
        StorageError,
        "the bucket is in another region",
        "set its region: AWS_REGION in the environment, or region in option 'storageOptions'",
    ),
    (
        re.compile(r"Check for Hierarchical Namespace support(?!.*Fail to get a new connection)"),
        AccessDeniedError,
        "access is denied to the check whether the account has a hierarchical namespace, which writes need",
        "give the shared access signature the permissions r, a, c, w, d, l and e (execute)",
    ),
    (
        re.compile(
            r"ExpiredToken|TokenRefreshRequired|RequestExpired|Signature not valid in the specified time frame"
            r"|performing HEAD .*status code: 400"
        ),
        AccessDeniedError,
        "the storage refuses the credentials of this process: they have expired",
        "renew them where this process found them; new ones in profiles, containers and of instances are noticed, and "
        "those in the environment of this process: " + IN_ENVIRONMENT,
    ),
    (
        re.compile(
            r"ACCESS_DENIED|AccessDenied|status(?: code:)? 40[13]|PERMISSION_DENIED|UNAUTHENTICATED|Permission denied"
            r"|AccessControl|Authorization|AuthenticationFailed|INVALID_ACCESS_KEY|InvalidAccessKey|SIGNATURE_DOES_NOT_MATCH"
            r"|SignatureDoesNotMatch|TOKEN|credential",
            re.IGNORECASE,
        ),
        AccessDeniedError,
        "the storage denies access",
        "this process has no credentials, or they lack a permission: " + IN_ENVIRONMENT,
    ),
    (
        re.compile(r"NO_SUCH_KEY|NoSuchKey|status(?: code:)? 404|BlobNotFound|NOT_FOUND|PathNotFound", re.IGNORECASE),
        StateFileNotFoundError,
        "a file of the snapshot is missing",
        MISSING,
    ),
    (
        re.compile(r"status(?: code:)? 416|InvalidRange|INVALID_RANGE", re.IGNORECASE),
        CorruptStateError,
        "the file is shorter than it was when it was opened",
        "it was replaced while it was read: read the snapshot again",
    ),
    (
        re.compile(
            r"SSL (?:connect|peer|certificate|routines)|TLS connect|peer certificate|InvalidContentType|UnknownIssuer",
            re.IGNORECASE,
        ),
        StorageError,
        "the TLS connection to the storage fails",
        "check the endpoint: http:// if the storage has no TLS, else a host that its certificate names; give the file "
        "of a private certificate authority in AWS_CA_BUNDLE, or as caFile in option 'storageOptions' (S3)",
    ),
    (
        re.compile(r"resolve host|name resolution|dns error|invalid dns label", re.IGNORECASE),
        StorageError,
        "the host name of the storage cannot be resolved",
        "check the host in the endpoint, the bucket and region (S3) or the account (Azure), and this machine's DNS",
    ),
    (
        re.compile(
            r"NETWORK_CONNECTION|curl|could not connect|connection ?refused|timed? ?out|resolve|error sending request"
            r"|response body error|ConnectionReset",
            re.IGNORECASE,
        ),
        StorageError,
        "the storage does not answer",
        "check the endpoint (http or https, host, port), and that this machine reaches it; for slow storage raise "
        "requestTimeout (S3) and retryLimit in option 'storageOptions'",
    ),
    (
        re.compile(
            r"status(?: code:)? 5\d\d|SLOW_DOWN|SlowDown|INTERNAL|SERVICE_UNAVAILABLE|UNAVAILABLE|THROTTL",
            re.IGNORECASE,
        ),
        StorageError,
        "the storage answers with errors, after retries too",
        "try later, or with fewer tasks at a time; "
        "retryLimit in option 'storageOptions' allows retries for a longer time",
    ),
)
MAX_TEXT = 400
#: What the error is about, whose names may have any words.
URL = re.compile(r"https?://\S+")


def storage_error(error: Exception, path: str) -> SavepointError:
    """Return the SavepointError for a client's error, and remove secrets from both."""
    whole = redact(" ".join(str(error).split()))
    text = elide(whole, MAX_TEXT)
    error.args = (text,)
    if isinstance(error, OSError):
        del error.filename, error.strerror
    if isinstance(error, FileNotFoundError):
        return StateFileNotFoundError("a file of the snapshot is missing", path=path, remedy=MISSING)
    said = URL.sub("", whole)
    for pattern, kind, message, remedy in MEANINGS:
        if pattern.search(said):
            # The loader of libraries lists every folder that it has tried.
            return kind(message, path=path, found=text.partition(" dlopen(")[0], remedy=remedy)
    kind = AccessDeniedError if isinstance(error, PermissionError) else StorageError
    return kind("the storage cannot be read", path=path, found=text)


def refuse(error: Exception, path: str, uncertain: bool = False) -> NoReturn:
    """Raise an error of the client as an OutputError with a remedy.

    With ``uncertain``, the file may have been written: then raise an UncertainOutcomeError unless access was denied.
    """
    meaning = error if isinstance(error, SavepointError) else storage_error(error, path)
    kind = UncertainOutcomeError if uncertain and not isinstance(meaning, AccessDeniedError) else OutputError
    raise kind(
        "a file of the savepoint cannot be written",
        path=path,
        found=f"{meaning.message}: {meaning.facts.get('found', error)}",
        remedy=meaning.facts.get("remedy"),
    ) from None


@contextlib.contextmanager
def refusing(path: str) -> Iterator[None]:
    """Raise the file system's write errors as :class:`OutputError`."""
    try:
        yield
    except CLIENT_ERRORS as error:
        refuse(error, path)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise the file system's read errors as :class:`SavepointError`."""
    try:
        yield
    except CLIENT_ERRORS as error:
        raise storage_error(error, path) from None


CONNECT_TIMEOUT, REQUEST_TIMEOUT = 5.0, 10.0
MAX_ATTEMPTS = 5
#: Seconds for which a failed request is retried.
RETRY_LIMIT = 120.0
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


def bucket_of(target: StoreTarget) -> str:
    """Return the validated name of a bucket, which becomes part of a host name."""
    scheme, bucket = target.scheme, target.authority
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


def _s3(target: StoreTarget) -> Connection:
    bucket, options = bucket_of(target), target.options
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
    return arrow_fs.S3FileSystem(region=region_of(bucket, options), **_without_none(settings)), bucket


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


def _gcs(target: StoreTarget) -> Connection:
    bucket, options = bucket_of(target), target.options
    scheme, host = parts_of(options.endpoint)
    settings: dict[str, Any] = {
        "anonymous": options.anonymous,
        "scheme": scheme or ("http" if host and options.anonymous else None),
        "endpoint_override": host,
        "project_id": options.project_id,
        "target_service_account": options.service_account,
        "retry_time_limit": timedelta(seconds=options.retry_limit or RETRY_LIMIT),
    }
    return arrow_fs.GcsFileSystem(**_without_none(settings)), bucket


def azure_settings(target: StoreTarget) -> tuple[str, str, dict[str, str | None]]:
    """Parse ``container@account.dfs.core.windows.net``; return account, container and settings of pyarrow."""
    match = AZURE.fullmatch(target.authority)
    if match is None:
        raise OptionError(
            "the path names no container and account",
            path=f"abfss://{target.authority}",
            expected="abfss://container@account.dfs.core.windows.net/folder",
        )
    container, account, suffix = match.groups()
    settings = {
        **_azure_hosts(account, suffix, target),
        **_azure_keys(account, target.recorded),
        "client_id": target.options.client_id,
    }
    return account, container, settings


def _azure(target: StoreTarget) -> Connection:
    account, container, settings = azure_settings(target)
    return arrow_fs.AzureFileSystem(account, **_without_none(settings)), container


def _azure_hosts(account: str, suffix: str | None, target: StoreTarget) -> dict[str, str | None]:
    """Return the hosts of the services: from the options, else from the path if it names a host of Azure."""
    options = target.options
    if options.endpoint is None:
        if suffix is not None and not AZURE_HOSTS.fullmatch(suffix):
            raise OptionError(
                "the host in the path is not a host of Azure",
                path=f"abfss://{target.authority}",
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


def _without_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that have a value: some pyarrow releases do not know all of them."""
    return {name: value for name, value in settings.items() if value}


def _hadoop(target: StoreTarget) -> Connection:
    filesystem, prefix = arrow_fs.FileSystem.from_uri(f"{target.scheme}://{target.authority or 'default'}/")
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
