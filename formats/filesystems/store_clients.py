"""Clients of object stores: obstore's, with what options and the environment say of endpoints and credentials."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from pyspark_savepoint.formats.filesystems.credentials import (
    azure_identity,
    expect_google,
    s3_credential_hosts,
    s3_credentials,
)
from pyspark_savepoint.formats.filesystems.remote import (
    CONNECT_TIMEOUT,
    REQUEST_TIMEOUT,
    RETRY_LIMIT,
    StoreTarget,
    azure_settings,
    bucket_of,
    parts_of,
    region_of,
)
from pyspark_savepoint.formats.filesystems.store_answers import LONGEST_PAUSE, NOWHERE
from pyspark_savepoint.formats.io.local_files import read_regular

ADDRESS = re.compile(r"[0-9.]+(?::|$)|\[")
#: Variables that name proxies, to which requests are sent instead; the client reads them.
PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})
#: The request timeout grows by one second for each of these bytes.
BYTES_PER_SECOND = 1 << 20
#: Maximum size of a file of certificates, in bytes.
MAX_CERTIFICATES = 1 << 26


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
class Client:
    """Arguments of an obstore client; ``patience`` is the timeout of a small request in seconds."""

    kind: str
    arguments: Mapping[str, Any] = field(repr=False)
    connect_timeout: float = CONNECT_TIMEOUT
    patience: float = REQUEST_TIMEOUT
    attempts: int | None = None
    budget: float = RETRY_LIMIT
    client_options: Mapping[str, Any] = field(default_factory=dict)

    def open(self, size: int, attempts: int) -> Any:
        """Return a client for requests of ``size`` bytes that makes ``attempts`` attempts itself."""
        from obstore import store

        _Process.used = True
        kinds = {"s3": store.S3Store, "gs": store.GCSStore, "abfs": store.AzureStore}
        timeouts = {
            "connect_timeout": timedelta(seconds=self.connect_timeout),
            "read_timeout": timedelta(seconds=self.patience + size / BYTES_PER_SECOND),
            "timeout": timedelta(hours=1),
        }
        return kinds[self.kind](
            **self.arguments,
            client_options={**timeouts, **self.client_options},
            retry_config={
                "max_retries": attempts - 1,
                "retry_timeout": timedelta(seconds=self.budget),
                "backoff": {"max_backoff": timedelta(seconds=LONGEST_PAUSE)},
            },
        )


def client_of(target: StoreTarget) -> Callable[[], Client]:
    """Return what makes the client of a place; LookupError explains why only pyarrow has its identity."""
    if target.scheme not in CLIENTS:
        raise LookupError(f"{target.scheme}:// has no conditional writes")
    if _Process.forked:
        raise LookupError("this process was forked from one that had used obstore")
    return functools.partial(CLIENTS[target.scheme], target)


def _s3(target: StoreTarget) -> Client:
    bucket, options = bucket_of(target), target.options
    if options.role_arn:
        raise LookupError("option roleArn is used for reads only: name the role in an AWS profile")
    scheme, host = parts_of(options.endpoint)
    if options.virtual_hosted and host and ADDRESS.match(host):
        raise LookupError("virtualHosted needs an endpoint with a host name, not an IP address")
    credentials = None if options.anonymous else s3_credentials(lambda: region_of(bucket, options))
    region = region_of(bucket, options)
    scheme, host = scheme or "https", host or _host_of(region)
    hosts = () if options.anonymous or credentials is not None else s3_credential_hosts(region)
    endpoint = f"{scheme}://{bucket}.{host}" if options.virtual_hosted else f"{scheme}://{host}"
    return Client(
        "s3",
        {
            "bucket": bucket,
            "region": region,
            # Both keys are set, because otherwise an endpoint in the environment would take precedence.
            "endpoint": endpoint,
            "aws_endpoint_url_s3": endpoint,
            "virtual_hosted_style_request": bool(options.virtual_hosted),
            "skip_signature": bool(options.anonymous),
            "unsigned_payload": False,
            "credential_provider": credentials,
        },
        options.connect_timeout or CONNECT_TIMEOUT,
        options.request_timeout or REQUEST_TIMEOUT,
        options.max_attempts,
        options.retry_limit or RETRY_LIMIT,
        {"allow_http": scheme == "http", **_staying_at(host, *hosts), **_certificates(options.ca_file)},
    )


def _host_of(region: str) -> str:
    """Return S3's host; China has a domain of its own."""
    return f"s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _staying_at(*hosts: str) -> dict[str, str]:
    """Return the client's options that let it send requests to these hosts, and those below them, alone.

    The client follows redirects, with all headers but ``Authorization`` (S3's session token is in another one), and has
    no option against it. So it gets a proxy that is nowhere, for all other hosts. Where the environment names a proxy,
    that one decides.
    """
    if PROXIES & {name.lower() for name, value in os.environ.items() if value}:
        return {}
    names = [re.sub(r":[0-9]+$", "", host).strip("[]") for host in hosts]
    return {"proxy_url": f"http://{NOWHERE}", "proxy_excludes": ",".join(names)}


def _certificates(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    return {"root_certificate": read_regular(path, MAX_CERTIFICATES).decode()}


def _gcs(target: StoreTarget) -> Client:
    bucket, options = bucket_of(target), target.options
    if options.service_account:
        raise LookupError("serviceAccount is impersonated by pyarrow only")
    arguments: dict[str, Any] = {"bucket": bucket, "skip_signature": bool(options.anonymous)}
    scheme, host = parts_of(options.endpoint)
    scheme = scheme or ("http" if host and options.anonymous else "https")
    if options.anonymous:
        # The client requests a token before each put, even unsigned: by default from the cloud's metadata service.
        arguments["credential_provider"] = _no_token
    else:
        expect_google()
    if host:
        arguments["base_url"] = f"{scheme}://{host}"
    limit = options.retry_limit or RETRY_LIMIT
    return Client("gs", arguments, budget=limit, client_options={"allow_http": scheme == "http"})


def _no_token() -> dict[str, Any]:
    """Return a placeholder for a token, for stores that need no credentials."""
    return {"token": "anonymous", "expires_at": None}


def _azure(target: StoreTarget) -> Client:
    account, container, settings = azure_settings(target)
    owner = os.environ.get("AZURE_STORAGE_ACCOUNT")
    if target.recorded or (owner and owner != account):
        raise LookupError(f"the keys in the environment are not those of account {account!r}")
    host = settings.get("blob_storage_authority") or ".blob.core.windows.net"
    scheme = settings.get("blob_storage_scheme") or "https"
    arguments: dict[str, Any] = {
        "container_name": container,
        "account_name": account,
        "endpoint": f"{scheme}://{account}{host}" if host.startswith(".") else f"{scheme}://{host}/{account}",
        "client_id": settings.get("client_id"),
    }
    given = {name: value for name, value in arguments.items() if value}
    secrets = {
        "access_key": settings.get("account_key"),
        "sas_token": (settings.get("sas_token") or "").removeprefix("?"),
    }
    own = {name: value for name, value in secrets.items() if value}
    if own:
        name, secret = next(iter(own.items()))
        # The client would prefer an identity that the environment names, whose tokens come from another host.
        given["credential_provider"] = lambda: {name: secret, "expires_at": None}
        staying = _staying_at(given["endpoint"].partition("://")[2].partition("/")[0])
    else:
        given |= azure_identity()
        staying = {}  # tokens come from other hosts, and are sent in a header that no redirect gets
    limit = target.options.retry_limit or RETRY_LIMIT
    return Client("abfs", given, budget=limit, client_options={"allow_http": scheme == "http", **staying})


CLIENTS: Mapping[str, Callable[[StoreTarget], Client]] = MappingProxyType(
    {"s3": _s3, "gs": _gcs, "abfs": _azure, "abfss": _azure}
)
