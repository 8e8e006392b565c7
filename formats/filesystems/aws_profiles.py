"""Keys of AWS profiles, for clients without profile support: ``~/.aws/credentials`` and ``~/.aws/config``.

Keys in the files have the same precedence as in the AWS SDK. Where a profile names another source (SSO, a role, a
process), boto3 provides the credentials, if it is installed.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

#: Keys are read again after this time, because key rotation rewrites the file.
FRESH = timedelta(minutes=5)
SOURCES = ("role_arn", "sso_session", "sso_start_url", "credential_process", "credential_source")


@dataclass(frozen=True)
class ProfileKeys:
    """A credential provider for obstore that returns the current keys of a profile."""

    name: str

    def __call__(self) -> dict[str, Any]:
        """Return the keys, with an expiry time."""
        found = _profile(self.name)
        return {
            "access_key_id": found["aws_access_key_id"],
            "secret_access_key": found["aws_secret_access_key"],
            "token": found.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + FRESH,
        }


def profile_credentials() -> Any:
    """Return a provider of the credentials that the AWS SDK would take from a profile; None if it uses another source.

    Raises LookupError if the profile names a source that requires the SDK or boto3.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        return None
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    found = _profile(name)
    if "aws_access_key_id" in found and "aws_secret_access_key" in found:
        return ProfileKeys(name)
    source = next((key for key in SOURCES if key in found), None)
    if source is None:
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise LookupError(f"profile {name!r} has {source}, which needs boto3: install it") from None
    return Boto3CredentialProvider()


def _profile(name: str) -> Mapping[str, str]:
    """Return the entries of a profile from both files; those of the credentials file take precedence."""
    found: dict[str, str] = {}
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
            found.update(parser.items(section))
    return found
