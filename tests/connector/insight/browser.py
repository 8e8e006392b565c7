"""A page in headless Chromium, over its DevTools protocol: what it logs, asks of a network, and shows."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tornado.websocket import WebSocketClientConnection, websocket_connect

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
#: Seconds until the browser has started, or answered.
PATIENCE = 120
MANY = 1 << 26


class Page:
    """A page that is open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: WebSocketClientConnection) -> None:
        self.loop = loop
        self.socket = socket
        self.number = 0
        #: Messages of the console, uncaught exceptions, and what the security policy forbids.
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        self.socket.write_message(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._next())
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self) -> str:
        message = self.loop.run_until_complete(asyncio.wait_for(_read(self.socket), PATIENCE))
        assert isinstance(message, str)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif event["method"] == "Log.entryAdded":
            self.complaints.append(given["entry"]["text"])
        elif event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(given))

    def open(self, path: Path, width: int = 1200, theme: str = "light") -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + PATIENCE
        while self.run("document.readyState") != "complete" or self.run("location.href") != path.as_uri():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def picture(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, **self._whole())
        path.write_bytes(base64.b64decode(shot["data"]))

    def _whole(self) -> dict[str, Any]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}


KEYS = {"Tab": 9, "Enter": 13}


async def _read(socket: WebSocketClientConnection) -> str | bytes | None:
    return await socket.read_message()


@contextmanager
def opened(profile: Path) -> Iterator[Page]:
    """Start the browser with a page; end it."""
    assert BROWSER is not None
    started = subprocess.Popen(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
            f"--user-data-dir={profile}", "about:blank",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    loop = asyncio.new_event_loop()
    try:
        port, deadline = profile / "DevToolsActivePort", time.monotonic() + PATIENCE
        while not port.is_file() or not port.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with urlopen(f"http://127.0.0.1:{port.read_text().split()[0]}/json/list") as answer:
            target = next(each for each in json.load(answer) if each["type"] == "page")
        address = target["webSocketDebuggerUrl"]

        async def connect() -> WebSocketClientConnection:
            return await websocket_connect(address, max_message_size=MANY)

        socket = loop.run_until_complete(connect())
        yield Page(loop, socket)
        socket.close()
    finally:
        started.kill()
        started.wait()
        loop.close()
