"""Opens pages in a headless Chromium, over its DevTools protocol.

The protocol is spoken through two pipes (--remote-debugging-pipe): a message is JSON with a NUL
behind it, written to the browser's descriptor 3 and read from its descriptor 4. So neither a
port nor a websocket library is needed.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--disable-default-apps", "--hide-scrollbars", "--remote-debugging-pipe"),
)
_READ_END, _WRITE_END = 3, 4
"""The descriptors that the browser reads from and writes to."""


def find_chromium() -> str | None:
    """The path of a Chromium or Chrome (CHROMIUM in the environment names another); None where none is."""
    names = (os.environ["CHROMIUM"],) if "CHROMIUM" in os.environ else _NAMES
    return next((path for path in map(shutil.which, names) if path), None)


@dataclass(kw_only=True, slots=True)
class Visit:
    """What happened while a page was open."""

    value: Any = None
    """Of the expression that was evaluated in it."""
    messages: list[str] = field(default_factory=list)
    """On its console, and exceptions."""
    requests: list[str] = field(default_factory=list)
    """Addresses of everything it asked for but itself."""
    picture: bytes = b""
    """A PNG of the whole page, where one was asked for."""


class Browser:
    """A running browser; see ``browser``."""

    def __init__(self, to_browser: int, from_browser: int, timeout_s: float) -> None:
        self._to, self._from, self._timeout_s = to_browser, from_browser, timeout_s
        self._buffer = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def visit(
        self,
        page: Path,
        *,
        width: int,
        dark: bool = False,
        script: bool = True,
        media: str = "",
        expression: str = "null",
        picture: bool = False,
    ) -> Visit:
        """Open ``page``, ``width`` CSS pixels wide, and evaluate ``expression`` in it when it is loaded.

        Without ``script`` the page's own scripts do not run. ``media`` may be "print".
        """
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._call(f"{domain}.enable", session)
        self._call("Emulation.setScriptExecutionDisabled", session, value=not script)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", session, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", session, media=media, features=[scheme])
        self._events.clear()
        self._call("Page.navigate", session, url=page.as_uri())
        self._wait_for("Page.loadEventFired", session)
        said = self._call("Runtime.evaluate", session, expression=expression, returnByValue=True)
        visit = Visit(value=said["result"].get("value"))
        if picture:
            visit.picture = self._picture(session)
        for event in self._events:
            _note(visit, event, page.as_uri())
        self._call("Target.closeTarget", targetId=target)
        return visit

    def _picture(self, session: str) -> bytes:
        import base64

        size = self._call("Page.getLayoutMetrics", session)["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._call("Page.captureScreenshot", session, captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _wait_for(self, method: str, session: str) -> None:
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self._events):
            self._events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._from, selectors.EVENT_READ)
            while b"\0" not in self._buffer:
                assert selector.select(max(0.0, deadline - time.monotonic())), "the browser does not answer"
                part = os.read(self._from, 1 << 20)
                assert part, "the browser has ended"
                self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


def _note(visit: Visit, event: dict[str, Any], own: str) -> None:
    said = event.get("params", {})
    match event.get("method"):
        case "Runtime.consoleAPICalled":
            visit.messages.append(json.dumps(said["args"]))
        case "Runtime.exceptionThrown":
            visit.messages.append(json.dumps(said["exceptionDetails"]))
        case "Log.entryAdded":
            visit.messages.append(said["entry"]["text"])
        case "Network.requestWillBeSent":
            url = said["request"]["url"]
            if url != own and not url.startswith("data:"):
                visit.requests.append(url)


@contextmanager
def browser(path: str, *, timeout_s: float = 60) -> Iterator[Browser]:
    """Run the browser at ``path``, with a profile of its own that is gone afterwards."""
    profile = tempfile.mkdtemp(prefix="feedline-browser-")
    their_read, our_write = _high_pipe()
    our_read, their_write = _high_pipe()

    def give_descriptors() -> None:
        os.dup2(their_read, _READ_END)
        os.dup2(their_write, _WRITE_END)

    process = subprocess.Popen(
        [path, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Both ends are already closed in children (PEP 446), but for the copies that this makes.
        close_fds=False,
        preexec_fn=give_descriptors,  # noqa: PLW1509
    )
    os.close(their_read)
    os.close(their_write)
    try:
        yield Browser(our_write, our_read, timeout_s)
    finally:
        os.close(our_write)
        os.close(our_read)
        try:
            # It ends by itself when its pipe is closed.
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(profile, ignore_errors=True)


def _high_pipe() -> tuple[int, int]:
    """A pipe whose ends are neither of the descriptors that the browser gets."""
    ends = []
    for low in os.pipe():
        ends.append(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(low)
    return ends[0], ends[1]
