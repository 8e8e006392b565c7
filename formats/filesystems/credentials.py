"""Credentials of object stores: where they come from, and that they are asked for again before they expire.

Keys in the environment and in profiles are read again every few seconds, because rotation replaces them there. obstore
itself asks web identity by https, containers with a token file, instances, and the files of Google and Azure. A profile
that names another source (SSO, a role, a process) needs boto3.
"""

from __future__ import annotations

import configparser
import html
import json
import os
import re
import shutil
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from pyspark_savepoint.formats.errors import AccessDeniedError
from pyspark_savepoint.formats.filesystems.storage_options import IN_ENVIRONMENT
from pyspark_savepoint.formats.redaction import redacted

#: The client asks again when credentials expire within five minutes: these are asked for again after ten seconds.
FRESH = timedelta(minutes=5, seconds=10)
SOURCES = ("role_arn", "sso_session", "sso_start_url", "credential_process", "credential_source")
CONTAINER_URI, CONTAINER_TOKEN = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN"
#: Where machines of all three clouds have their metadata, and seconds until it must accept a connection.
METADATA_HOST, METADATA_TIMEOUT = "169.254.169.254", 2.0
#: Where AWS has the credentials of a container whose environment names no host.
CONTAINER_HOST = "169.254.170.2"
MAX_ANSWER = 1 << 20


@dataclass(frozen=True)
class EnvironmentKeys:
    """A credential provider for obstore that returns the keys that are in the environment now."""

    def __call__(self) -> dict[str, Any]:
        """Return the keys, with the time until which they count as fresh."""
        return _keys(
            os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], os.environ.get("AWS_SESSION_TOKEN")
        )


@dataclass(frozen=True)
class ProfileKeys:
    """A credential provider for obstore that returns the current keys of a profile."""

    name: str

    def __call__(self) -> dict[str, Any]:
        """Return the keys, with the time until which they count as fresh."""
        profile = _profile(self.name)
        return _keys(profile["aws_access_key_id"], profile["aws_secret_access_key"], profile.get("aws_session_token"))


@redacted
@dataclass(frozen=True)
class ContainerKeys:
    """A credential provider for obstore that asks the endpoint of a container, which needs no token file."""

    uri: str

    def __call__(self) -> dict[str, Any]:
        """Return the keys, with the time when they expire."""
        token = os.environ.get(CONTAINER_TOKEN)
        request = urllib.request.Request(self.uri, headers={"Authorization": token} if token else {})  # noqa: S310
        with urllib.request.urlopen(request, timeout=METADATA_TIMEOUT) as answer:  # noqa: S310
            found = json.loads(answer.read(MAX_ANSWER))
        keys = _keys(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token"))
        if found.get("Expiration"):
            keys["expires_at"] = datetime.fromisoformat(found["Expiration"])
        return keys


@redacted
@dataclass(frozen=True)
class IdentityKeys:
    """A credential provider for obstore that asks an STS by http, as emulators have; obstore asks by https alone."""

    uri: str

    def __call__(self) -> dict[str, Any]:
        """Return the keys for the current token of the web identity, with the time when they expire."""
        with open(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"], encoding="utf-8") as file:
            token = file.read().strip()
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": os.environ["AWS_ROLE_ARN"],
            "RoleSessionName": os.environ.get("AWS_ROLE_SESSION_NAME") or "WebIdentitySession",
            "WebIdentityToken": token,
        }
        body = urllib.parse.urlencode(form).encode()
        try:
            with urllib.request.urlopen(self.uri, body, timeout=METADATA_TIMEOUT) as answer:  # noqa: S310
                text = answer.read(MAX_ANSWER).decode()
        except urllib.error.HTTPError as error:
            code = re.search(r"<Code>\s*(\w+)\s*</Code>", error.read(MAX_ANSWER).decode(errors="replace"))
            raise ValueError(f"STS answers {error.code}" + (f", {code[1]}" if code else "")) from None
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        values = {name: re.search(rf"<{name}>\s*([^<\s]+)\s*</{name}>", text) for name in names}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise ValueError(f"the answer of STS lacks {', '.join(missing)}")
        key, secret, session, expires = (html.unescape(value[1]) for value in values.values() if value)
        return {**_keys(key, secret, session), "expires_at": datetime.fromisoformat(expires)}


def _keys(key: str, secret: str, token: str | None) -> dict[str, Any]:
    return {
        "access_key_id": key,
        "secret_access_key": secret,
        "token": token,
        "expires_at": datetime.now(UTC) + FRESH,
    }


def s3_credentials() -> Any:
    """Return a provider of the credentials that the AWS SDK would take; None if obstore itself finds them.

    Raises:
        LookupError: If a profile names a source that needs boto3, which is not installed.
        AccessDeniedError: If there are none at all.

    """
    if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        return EnvironmentKeys()
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    profile = _profile(name)
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        return ProfileKeys(name)
    source = next((key for key in SOURCES if key in profile), None)
    if source is not None:
        try:
            from obstore.auth.boto3 import Boto3CredentialProvider
        except ImportError:
            raise LookupError(f"profile {name!r} has {source}, which needs boto3: install it") from None
        return Boto3CredentialProvider()
    sts = os.environ.get("AWS_ENDPOINT_URL_STS", "")
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and os.environ.get("AWS_ROLE_ARN") and sts.startswith("http://"):
        return IdentityKeys(sts)
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") or os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return None
    uri = os.environ.get(CONTAINER_URI)
    if uri is not None:
        return None if os.environ.get(f"{CONTAINER_TOKEN}_FILE") else ContainerKeys(uri)
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise _none("s3", "no keys in the environment or a profile, and the instance is not asked")
    if not os.environ.get("AWS_METADATA_ENDPOINT"):
        expect_instance("s3")
    return None


def s3_credential_hosts(region: str) -> tuple[str, ...]:
    """Return the hosts that the client itself asks for S3's credentials: the metadata services, and AWS's STS."""
    named = (os.environ.get(name, "") for name in ("AWS_METADATA_ENDPOINT", CONTAINER_URI, "AWS_ENDPOINT_URL_STS"))
    hosts = (urlsplit(uri).netloc.rpartition("@")[2] for uri in named)
    return METADATA_HOST, CONTAINER_HOST, f"sts.{region}.amazonaws.com", *filter(None, hosts)


def expect_instance(scheme: str) -> None:
    """Raise AccessDeniedError if this machine has no metadata service that could have credentials.

    A client would wait for it for minutes.
    """
    try:
        socket.create_connection((METADATA_HOST, 80), METADATA_TIMEOUT).close()
    except OSError:
        raise _none(
            scheme, "no keys in the environment or a file, and this machine is not an instance with a role"
        ) from None


def _none(scheme: str, evidence: str) -> AccessDeniedError:
    return AccessDeniedError(
        "this process has no credentials for the storage", path=f"{scheme}://", found=evidence, remedy=IN_ENVIRONMENT
    )


def expect_google() -> None:
    """Raise AccessDeniedError if there can be no credentials of Google."""
    folder = os.path.expanduser(os.environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud")
    named = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH")
    if any(os.environ.get(name) for name in (*named, "GOOGLE_SERVICE_ACCOUNT_KEY")):
        return
    if not os.path.exists(os.path.join(folder, "application_default_credentials.json")):
        expect_instance("gs")


def azure_identity() -> dict[str, Any]:
    """Return the arguments of an identity without key and token; raise AccessDeniedError if there can be none."""
    federated = os.environ.get("AZURE_FEDERATED_TOKEN_FILE")
    if federated or (os.environ.get("AZURE_CLIENT_SECRET") and os.environ.get("AZURE_TENANT_ID")):
        return {}
    if os.environ.get("IDENTITY_ENDPOINT"):
        return {}
    if shutil.which("az") and os.path.isdir(os.path.expanduser(os.environ.get("AZURE_CONFIG_DIR") or "~/.azure")):
        return {"use_azure_cli": True}
    expect_instance("abfss")
    return {}


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
