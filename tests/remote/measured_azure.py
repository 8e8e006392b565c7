"""Azure's emulator behind a proxy that logs its requests and delays them: what ``MeasuredStore`` is for S3."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import parse_qs, unquote

from obstore.store import AzureStore

from tests.remote.measured_store import Request
from tests.remote.storage import ACCOUNT, ACCOUNT_KEY, HOST, FaultyProxy, ProxyHandler, azure_store, running_proxy

#: Kinds of puts, by what they ask for.
PUTS = {"block": "PART", "blocklist": "COMPLETE"}


class MeasuredAzure(FaultyProxy):
    """A container ``bucket``, with the log of its requests."""

    def __init__(self, store: int) -> None:
        super().__init__(store, _Handler)
        self.log: list[Request] = []
        self.latency = 0.0
        #: Bytes in a second of one connection; 0 for as many as there are.
        self.bandwidth = 0.0
        self.direct = container(f"http://{HOST}:{store}")

    def upload(self, folder: Path, prefix: str) -> None:
        """Put the files of a folder as blobs, those of older checkpoints first: the emulator tells when it got each."""
        for file in sorted(folder.rglob("*"), key=_by_number):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())

    def put(self, name: str, data: bytes) -> None:
        """Put one blob."""
        self.direct.put(name, data)

    def sizes(self) -> dict[str, int]:
        """Return all blobs with their sizes."""
        return {str(meta["path"]): int(meta["size"]) for page in self.direct.list() for meta in page}

    def remove(self, names: Iterable[str]) -> None:
        """Remove blobs."""
        for name in names:
            self.direct.delete(name)


def _by_number(file: Path) -> list[tuple[str, int]]:
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", str(file))]


def container(endpoint: str) -> AzureStore:
    """A client of the container."""
    return AzureStore(
        "bucket",
        account_name=ACCOUNT,
        account_key=ACCOUNT_KEY,
        endpoint=f"{endpoint}/{ACCOUNT}",
        client_options={"allow_http": True},
    )


class _Handler(ProxyHandler):
    server: MeasuredAzure

    def _hand_on(self) -> None:
        path, _, text = self.path.partition("?")
        query = {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
        key = unquote(re.sub(f"^/{ACCOUNT}/bucket/?", "", path))
        self.logged = Request(self._kind(query), key or query.get("prefix", ""), 0, 0, 0, time.monotonic(), 0.0)
        time.sleep(self.server.latency)
        super()._hand_on()
        self.logged.end = time.monotonic()

    def _kind(self, query: dict[str, str]) -> str:
        asked = query.get("comp", "")
        if self.command == "PUT":
            return "COPY" if self.headers.get("x-ms-copy-source") else PUTS.get(asked, "PUT")
        return {"list": "LIST", "batch": "DELETES"}.get(asked, self.command)

    def _ask(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        answer, data = super()._ask(body)
        logged = self.logged
        logged.status, logged.taken, logged.given = answer.status, len(body), len(data)
        if self.server.bandwidth:
            time.sleep((len(body) + len(data)) / self.server.bandwidth)
        logged.end = time.monotonic()
        self.server.log.append(logged)  # before the client has the answer, and may ask for the log
        return answer, data

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _hand_on  # noqa: N815  (names of the base class)


@contextmanager
def measured_azure() -> Iterator[MeasuredAzure]:
    """An empty container behind a proxy, as long as the block runs."""
    with azure_store() as port, running_proxy(MeasuredAzure(port)) as proxy:
        yield proxy
