"""Credentials of object stores: where they come from, and that they are asked for again before they expire.

Keys in the environment and in profiles are read again every few seconds, because rotation replaces them there. obstore
itself asks web identity by https, containers with a token file, instances, and the files of Google and Azure. A profile
that names another source (SSO, a role, a process) needs boto3.
"""

from __future__ import annotations

import configparser
import contextlib
import html
import json
import os
import re
import shutil
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from pyspark_savepoint.formats.errors import AccessDeniedError
from pyspark_savepoint.formats.filesystems.storage_options import IN_ENVIRONMENT
from pyspark_savepoint.formats.redaction import redact, redacted

#: The client asks again when credentials expire within five minutes: these are asked for again after ten seconds.
FRESH = timedelta(minutes=5, seconds=10)
SOURCES = ("role_arn", "sso_session", "sso_start_url", "credential_process", "credential_source")
TOKEN_FILE, ROLE, STS = "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ENDPOINT_URL_STS"
CONTAINER_URI, CONTAINER_TOKEN = "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN"
#: Where machines of all three clouds have their metadata, and seconds until it must accept a connection.
METADATA_HOST, METADATA_TIMEOUT = "169.254.169.254", 2.0
#: Where AWS has the credentials of a container whose environment names no host.
CONTAINER_HOST = "169.254.170.2"
MAX_ANSWER = 1 << 20
#: Variables of which one means nothing without the other.
PAIRS = (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), (TOKEN_FILE, ROLE))
#: How often a file of profiles that is empty or broken is read, and seconds between that.
REREADS, REREAD_PAUSE = 6, 0.05
FILES = (("AWS_CONFIG_FILE", "~/.aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"))
#: The client's words for what a provider of credentials has raised, for STS, whose address it hides, and for a token.
RAISED = re.compile(r".*External AWS credential provider: (?:LaterError: )?")
ASKED_STS, TOKEN = "POST REDACTED", "Failed to read token file"


class LaterError(Exception):
    """A service gives no credentials now, and may give them later; requests are made again then (``store_answers``)."""


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
        found = json.loads(_answer("the container's endpoint", request))
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
        with open(os.environ[TOKEN_FILE], encoding="utf-8") as file:
            token = file.read().strip()
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": os.environ[ROLE],
            "RoleSessionName": os.environ.get("AWS_ROLE_SESSION_NAME") or "WebIdentitySession",
            "WebIdentityToken": token,
        }
        text = _answer("STS", urllib.request.Request(self.uri, urllib.parse.urlencode(form).encode()))  # noqa: S310
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        values = {name: re.search(rf"<{name}>\s*([^<\s]+)\s*</{name}>", text) for name in names}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise ValueError(f"the answer of STS lacks {', '.join(missing)}")
        key, secret, session, expires = (html.unescape(value[1]) for value in values.values() if value)
        return {**_keys(key, secret, session), "expires_at": datetime.fromisoformat(expires)}


def _answer(service: str, request: urllib.request.Request) -> str:
    """Return what a service of credentials answers; LaterError if it may do so later."""
    try:
        with urllib.request.urlopen(request, timeout=METADATA_TIMEOUT) as answer:  # noqa: S310
            return str(answer.read(MAX_ANSWER), "utf-8")
    except urllib.error.HTTPError as error:
        code = re.search(r"<Code>\s*(\w+)\s*</Code>", error.read(MAX_ANSWER).decode(errors="replace"))
        kind = LaterError if error.code == 429 or error.code >= 500 else ValueError
        raise kind(f"{service} answers {error.code}" + (f", {code[1]}" if code else "")) from None
    except (OSError, HTTPException) as error:
        raise LaterError(f"{service} does not answer: {getattr(error, 'reason', error)}") from None


def _keys(key: str, secret: str, token: str | None) -> dict[str, Any]:
    return {
        "access_key_id": key,
        "secret_access_key": secret,
        "token": token,
        "expires_at": datetime.now(UTC) + FRESH,
    }


def s3_credentials(region: Callable[[], str]) -> Any:
    """Return a provider of the credentials that the AWS SDK would take; None if obstore itself finds them.

    ``region`` is that of the bucket, which a profile that names a role may need.

    Raises:
        LookupError: If a profile names a source that needs boto3, which is not installed.
        AccessDeniedError: If there are none at all.

    """
    if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        return EnvironmentKeys()
    name = _profile_name()
    profile = _profile(name)
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        return ProfileKeys(name)
    source = next((key for key in SOURCES if key in profile), None)
    if source is not None:
        return _of_profile(name, source, region)
    if os.environ.get(TOKEN_FILE) and os.environ.get(ROLE):
        sts = os.environ.get(STS, "")
        return IdentityKeys(sts) if sts.startswith("http://") else None
    if os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return None
    uri = os.environ.get(CONTAINER_URI)
    if uri is not None:
        return None if os.environ.get(f"{CONTAINER_TOKEN}_FILE") else ContainerKeys(uri)
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise _none("s3", "no keys in the environment or a profile, and the instance is not asked")
    if not os.environ.get("AWS_METADATA_ENDPOINT"):
        expect_instance("s3")
    return None


def _of_profile(name: str, source: str, region: Callable[[], str]) -> Any:
    """Return boto3's provider of the credentials that a profile names."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise LookupError(f"profile {name!r} has {source}, which needs boto3: install it") from None
    try:
        # boto3 itself does not look at AWS_REGION.
        session = boto3.Session(profile_name=name, region_name=os.environ.get("AWS_REGION"))
        if session.region_name is None:
            session = boto3.Session(profile_name=name, region_name=region())
        provider = Boto3CredentialProvider(session, ttl=FRESH)
    except (BotoCoreError, ValueError) as error:
        remedy = f"complete profile {name!r} in {' or '.join(map(_file, FILES))}"
        raise _none("s3", f"profile {name!r} with {source}: {error}", remedy) from None
    provider.config = {}  # its region is that of STS, not that of the bucket
    return provider


def s3_credential_hosts(region: str) -> tuple[str, ...]:
    """Return the hosts that the client itself asks for S3's credentials: the metadata services, and AWS's STS."""
    return *_metadata_hosts(), f"sts.{region}.amazonaws.com", *filter(None, [_host(STS)])


def _metadata_hosts() -> tuple[str, ...]:
    return METADATA_HOST, CONTAINER_HOST, *filter(None, map(_host, ("AWS_METADATA_ENDPOINT", CONTAINER_URI)))


def _host(variable: str) -> str:
    return urlsplit(os.environ.get(variable, "")).netloc.rpartition("@")[2]


def not_given(text: str, path: str) -> AccessDeniedError | None:
    """Return the error if the client of S3 says that it got no credentials; else None."""
    line = text.partition("\n")[0]  # boto3 appends what a service has answered
    prefix = RAISED.match(line)
    places = ASKED_STS, TOKEN, *(f"://{host}/" for host in _metadata_hosts())
    if prefix is None and not any(place in line for place in places):
        return None
    reason = line[prefix.end() :] if prefix else line.replace(ASKED_STS, "POST to STS")
    return _none("s3", redact(reason), path=path)


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


def _none(scheme: str, evidence: str, remedy: str | None = None, path: str | None = None) -> AccessDeniedError:
    """Return the error that there are no credentials; for S3 with what is missing in the environment."""
    gaps = [*_gaps()] if scheme == "s3" and remedy is None else []
    repairs = ", or ".join(repair for _, repair in gaps)
    if scheme == "s3" and "STS" in evidence:
        repairs = repairs or f"check {ROLE}, {TOKEN_FILE}, and {STS} where STS has another address"
    return AccessDeniedError(
        "this process has no credentials for the storage",
        path=path or f"{scheme}://",
        found="; ".join([evidence, *(gap for gap, _ in gaps)]),
        remedy=remedy or repairs or IN_ENVIRONMENT,
    )


def _gaps() -> Iterator[tuple[str, str]]:
    """Yield what makes credentials of S3 in the environment incomplete, and how to complete them."""
    for pair in PAIRS:
        for name, other in (pair, pair[::-1]):
            if os.environ.get(name) and not os.environ.get(other):
                yield f"{name} is set, and {other} is not", f"set {other}"
    token = os.environ.get(TOKEN_FILE)
    if token and os.environ.get(ROLE) and not os.path.exists(token):
        yield f"{TOKEN_FILE} names a file that is not there", f"set {TOKEN_FILE} to the file of a token"
    name = _profile_name()
    if name != "default" and not _profile(name):
        places = " or ".join(map(_file, FILES))
        yield f"there is no profile {name!r}", f"set AWS_PROFILE to a profile of {places}"


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


def _profile_name() -> str:
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def _file(place: tuple[str, str]) -> str:
    variable, path = place
    return os.environ.get(variable) or path


def _profile(name: str) -> Mapping[str, str]:
    """Return the entries of a profile from both files; those of the credentials file take precedence."""
    entries: dict[str, str] = {}
    for place, section in zip(FILES, (name if name == "default" else f"profile {name}", name), strict=True):
        parser = _parsed(os.path.expanduser(_file(place)))
        if parser.has_section(section):
            entries.update(parser.items(section))
    return entries


def _parsed(path: str) -> configparser.RawConfigParser:
    """Return the profiles of a file; one that is there and has none may just be rewritten, and is read again."""
    parser = configparser.RawConfigParser()
    for _ in range(REREADS):
        with contextlib.suppress(configparser.Error, ValueError):
            if not parser.read(path, encoding="utf-8") or parser.sections():
                break
        time.sleep(REREAD_PAUSE)
    return parser
