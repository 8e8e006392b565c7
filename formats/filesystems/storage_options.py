"""Options of object stores: endpoints, regions, timeouts and retries. Secrets are never options: see the environment.

Where an option is missing, the environment applies, with the variables of the stores' own tools. A path never contains
options, because paths come from many sources, and an endpoint receives signed requests and tokens.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from pyspark_savepoint.formats.errors import OptionError, did_you_mean
from pyspark_savepoint.formats.json_text import parse_json
from pyspark_savepoint.formats.redaction import redact, shown

IN_ENVIRONMENT = (
    "set them in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_KEY and the like; "
    "for executors spark.executorEnv.NAME), or give the machines a role"
)

OPTION = "storageOptions"
ENDPOINT = re.compile(r"(?:(https?)://)?([A-Za-z0-9.\-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?")
SECRET_NAME = re.compile(r"key|secret|token|password|sig|credential", re.IGNORECASE)
FLAGS = MappingProxyType({"true": True, "1": True, "false": False, "0": False})
#: Values of option ``conditionalWrites``.
WARN, REQUIRE = "warn", "require"
#: Variables of Google's tools for emulators, which never receive credentials.
EMULATORS = ("STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_EMULATOR_ENDPOINT")


def _setting(stores: str, doc: str, *variables: str, low: float = 0, high: float = 0) -> Any:
    metadata = {"stores": stores.split(), "doc": doc, "variables": variables, "low": low, "high": high}
    return field(default=None, metadata=metadata)


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The options of a store; None for the store's own default. They pickle and contain no secrets."""

    endpoint: str | None = _setting(
        "s3 gs abfs",
        "an endpoint other than the cloud's own, such as `http://host:9000`",
        "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", *EMULATORS, "AZURE_STORAGE_BLOB_ENDPOINT",
    )  # fmt: skip
    dfs_endpoint: str | None = _setting(
        "abfs", "the endpoint for hierarchical namespaces, if it is not the blob endpoint", "AZURE_STORAGE_DFS_ENDPOINT"
    )
    region: str | None = _setting(
        "s3", "the bucket's region, such as `eu-west-1`; default: the one that the bucket reports, else `AWS_REGION`"
    )
    anonymous: bool | None = _setting(
        "s3 gs", "`true`: no credentials are sent", "AWS_SKIP_SIGNATURE", "GOOGLE_SKIP_SIGNATURE"
    )
    role_arn: str | None = _setting("s3", "the role to assume")
    external_id: str | None = _setting("s3", "the external id that the role requires")
    ca_file: str | None = _setting(
        "s3", "file with the certificates of the endpoint's certificate authority", "AWS_CA_BUNDLE"
    )
    virtual_hosted: bool | None = _setting(
        "s3", "`true`: the bucket is part of the host name", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"
    )
    connect_timeout: float | None = _setting("s3", "seconds until a connection fails", low=1, high=3600)
    request_timeout: float | None = _setting("s3", "seconds until a request fails", low=1, high=3600)
    max_attempts: int | None = _setting(
        "s3",
        "number of attempts of a request, the first included; by default only `retryLimit` ends them",
        "AWS_MAX_ATTEMPTS",
        low=1,
        high=100,
    )
    retry_limit: float | None = _setting(
        "s3 gs abfs",
        "seconds for which a failed request is retried, 120 by default; a store that was never reached, 4 at most",
        low=1,
        high=86_400,
    )
    project_id: str | None = _setting("gs", "the project that is billed", "GOOGLE_CLOUD_PROJECT")
    service_account: str | None = _setting("gs", "the service account to impersonate")
    client_id: str | None = _setting("abfs", "the client id of the managed identity")
    conditional_writes: str | None = _setting(
        "s3 gs abfs",
        "what a write does where the store or its credentials have no conditional writes, or the store ignores their "
        "conditions: `warn` (default), or `require`: the write fails",
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse JSON; raise OptionError for invalid JSON, unknown names and secrets."""
        try:
            given = parse_json(text)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise OptionError(
                f"option '{OPTION}' is not a JSON object", expected='such as {"endpoint": "http://host:9000"}'
            )
        return cls.of(given)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Create from a mapping; its keys are the names of :meth:`parse` or the names of the fields."""
        known = {_camel(field.name): field for field in fields(cls)} | {field.name: field for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in options.items():
            if name not in known:
                if SECRET_NAME.search(name):
                    raise OptionError(f"{name!a} must not be given in options", remedy=IN_ENVIRONMENT)
                names = dict.fromkeys(_camel(field.name) for field in fields(cls))
                raise OptionError(f"option '{OPTION}' has no {name!a}", remedy=did_you_mean(name, names))
            values[known[name].name] = _checked(f"{name!r} in option '{OPTION}'", known[name], value)
        return cls(**values)

    def with_environment(self, store: str) -> StorageOptions:
        """Return these options for a store, with missing ones from the environment: each request asks for them."""
        set_now = tuple((name, text) for name in _variables(store) if (text := os.environ.get(name)))
        return _with_variables(self, store, set_now)

    def given(self) -> dict[str, Any]:
        """Return the options that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def to_json(self) -> str:
        """Return the JSON text that :meth:`parse` reads."""
        return json.dumps({_camel(name): value for name, value in self.given().items()})


NO_OPTIONS = StorageOptions()


@functools.lru_cache
def _variables(store: str) -> tuple[str, ...]:
    """Return the variables that a store has options from."""
    prefix = {"s3": "AWS_", "abfs": "AZURE_", "gs": ("STORAGE_", "CLOUD_", "GOOGLE_")}[store]
    options = [option for option in fields(StorageOptions) if store in option.metadata["stores"]]
    return tuple(name for option in options for name in option.metadata["variables"] if name.startswith(prefix))


@functools.lru_cache(maxsize=64)
def _with_variables(options: StorageOptions, store: str, variables: tuple[tuple[str, str], ...]) -> StorageOptions:
    """Return options for a store, with missing ones from variables of the environment."""
    texts, values = dict(variables), dict[str, Any]()
    for option in fields(options):
        for name in option.metadata["variables"]:
            if name in texts:
                values.setdefault(option.name, _checked(f"the variable {name}", option, texts[name]))
    if store == "gs" and "endpoint" in values:
        values.setdefault("anonymous", True)
    return replace(options, **{name: value for name, value in values.items() if name not in options.given()})


class StoragePath(str):
    """A path with the options of its store, which stay attached wherever the path is passed, also to tasks."""

    options: StorageOptions

    def __repr__(self) -> str:
        return shown(super().__repr__())

    @classmethod
    def of(cls, path: str, options: StorageOptions | str | None) -> str:
        """Return a path with options, which may be JSON; without options, the path itself."""
        parsed = StorageOptions.parse(options) if isinstance(options, str) else options
        if parsed is None or parsed == NO_OPTIONS:
            return path
        made = cls(path)
        made.options = parsed
        return made

    @staticmethod
    def options_of(path: str) -> StorageOptions:
        """Return the options of a path."""
        return path.options if isinstance(path, StoragePath) else NO_OPTIONS


def storage_options_table() -> str:
    """Return all options as a Markdown table, for the README."""
    rows = ["| name | stores | environment | meaning |", "| --- | --- | --- | --- |"]
    for option in fields(StorageOptions):
        variables = ", ".join(f"`{name}`" for name in option.metadata["variables"])
        stores = ", ".join(option.metadata["stores"])
        rows.append(f"| `{_camel(option.name)}` | {stores} | {variables} | {option.metadata['doc']} |")
    return "\n".join(rows)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _checked(what: str, option: Any, value: Any) -> Any:
    """Validate and convert the value of an option."""
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    low, high = option.metadata["low"], option.metadata["high"]
    if option.name in ("anonymous", "virtual_hosted"):
        if text.lower() in FLAGS:
            return FLAGS[text.lower()]
        expected = "true or false"
    elif option.name == "conditional_writes":
        if text.lower() in (WARN, REQUIRE):
            return text.lower()
        expected = f"{WARN} or {REQUIRE}"
    elif high:
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) and low <= float(text) <= high:
            return int(float(text)) if option.name == "max_attempts" else float(text)
        expected = f"a number from {low:g} to {high:g}"
    elif option.name.endswith("endpoint"):
        if ENDPOINT.fullmatch(text):
            return text.rstrip("/")
        expected = "http(s)://host:port, without user, path or query"
    elif text and redact(text) == text:
        return text
    else:
        expected = "a text without secrets"
    shown = {"remedy": IN_ENVIRONMENT} if "@" in text else {"found": value}
    raise OptionError(f"{what} has a value that is not valid", expected=expected, **shown)
