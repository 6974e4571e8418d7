"""Clients of the HTTP API: one that waits, and one to await.

    with boatswain.Client("http://127.0.0.1:7117", token_file="token") as driver:
        driver.put_target("default", 8)
        for event in driver.events():
            print(event["event"], event.get("executor"))

Both repeat a request that is harmless to repeat, while the driver restarts. The requests themselves are in operations.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import ssl
import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, Literal, TypedDict

import httpx

from boatswain.operations import AsyncOperations, Event, Executor, Operations

# Pauses between attempts, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# The driver sends a comment every 15 s, so an event stream that is silent for longer is dead.
SILENCE = 45.0


class BoatswainError(Exception):
    """What the driver refuses. `field` names the part of the request, and `hint` says what to do."""

    def __init__(self, message: str, status: int = 0, code: str = "", field: str = "", hint: str = "") -> None:
        super().__init__(message + (f" ({field})" if field else "") + (f": {hint}" if hint else ""))
        self.status, self.code, self.field, self.hint = status, code, field, hint


class Unreachable(BoatswainError):
    """The driver gave no answer in time. Whether it has carried out the request is unknown."""


class Living(TypedDict):
    """The first message of a stream of events: what there is."""

    event: Literal["living"]
    time: str
    # Whether events were missed since the place that was given.
    gap: bool
    executors: list[Executor]
    # The profiles that are being removed, and those that have failed, with the reason.
    removing: list[str]
    failed: dict[str, str]
    # The last events of executors that have ended.
    ended: list[Event]


class _Base:
    def __init__(
        self,
        server: str | None = None,
        *,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Without arguments BOATSWAIN_SERVER, BOATSWAIN_TOKEN_FILE and BOATSWAIN_CA_FILE count, as for the commands.

        `timeout` is in seconds, for all attempts of a request together.
        """
        self.server = (server or os.environ.get("BOATSWAIN_SERVER") or "http://127.0.0.1:7117").rstrip("/")
        token_file = token_file or os.environ.get("BOATSWAIN_TOKEN_FILE")
        self._token_file = pathlib.Path(token_file) if token_file else None
        self._ca_file = ca_file or os.environ.get("BOATSWAIN_CA_FILE")
        self._timeout = timeout
        self._http: Any = None

    def _options(self) -> dict[str, Any]:
        verify = ssl.create_default_context(cafile=os.fspath(self._ca_file)) if self._ca_file else True
        return {"base_url": self.server, "timeout": self._timeout, "verify": verify}

    def _headers(self) -> dict[str, str]:
        """The token is read each time, because mounted tokens are replaced."""
        if self._token_file is None:
            return {}
        lines = (line.split() for line in self._token_file.read_text().splitlines())
        tokens = [words[0] for words in lines if words and not words[0].startswith("#")]
        if not tokens:
            raise BoatswainError(f"{self._token_file} has no token", hint="name the file of the driver's api.token_file")
        return {"Authorization": f"Bearer {tokens[0]}"}

    def _request(self, method: str, path: str, body: Any) -> dict[str, Any]:
        given = {key: value for key, value in body.items() if value is not None} if body is not None else None
        return {"method": method, "url": path, "json": given, "headers": self._headers()}


Step = Generator["dict[str, Any] | float", "httpx.Response | httpx.TransportError | None", Any]


def _conversation(base: _Base, method: str, path: str, body: Any) -> Step:
    """Yields requests to send, and pauses; receives answers or errors; returns the JSON of the answer."""
    until = time.monotonic() + base._timeout
    # An end that is repeated would meet a driver that is gone.
    may_repeat = not path.startswith("/v1/application/")
    pause = FIRST_PAUSE
    refused: dict[str, str] | None = None
    while True:
        request = base._request(method, path, body)
        answer = yield request
        problem: BoatswainError
        if isinstance(answer, httpx.TransportError):
            problem = Unreachable(f"{method} {base.server}{path}: {answer or type(answer).__name__}")
            again = may_repeat or isinstance(answer, httpx.ConnectError)
        else:
            assert answer is not None
            if answer.is_success:
                return answer.json()
            problem = _problem(answer)
            # A token may have been replaced between reading and sending it.
            again = answer.status_code == 503 or (answer.status_code == 401 and refused != request["headers"])
            # A driver that starts says when it is worth asking again.
            pause = max(pause, _retry_after(answer))
            refused = request["headers"]
        if not again or time.monotonic() + pause > until:
            raise problem
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _retry_after(answer: httpx.Response) -> float:
    """For how many seconds the answer asks to wait."""
    seconds = answer.headers.get("retry-after", "")
    return min(float(seconds), LONGEST_PAUSE) if seconds.isdecimal() else 0.0


def _problem(answer: httpx.Response) -> BoatswainError:
    try:
        said = answer.json()
        fields = {key: str(said[key]) for key in ("code", "field", "hint") if said.get(key)}
        return BoatswainError(str(said["message"]), answer.status_code, **fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return BoatswainError(f"{answer.request.method} {answer.request.url}: {answer.status_code}", answer.status_code)


class _Place:
    """The place in the stream of events, and the event that is being read."""

    def __init__(self, after: str | None) -> None:
        self.after = after
        self._id: str | None = None
        self._data: list[str] = []
        self.pause = FIRST_PAUSE

    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": self.after} if self.after else {}

    def begin(self) -> None:
        self._id, self._data = None, []

    def line(self, line: str) -> Event | Living | None:
        """Takes a line of the stream, and returns the event that it completes."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
        if line or not self._data:
            return None
        data, id = "\n".join(self._data), self._id
        self.begin()
        self.after = id or self.after
        self.pause = FIRST_PAUSE
        event: Event | Living = json.loads(data)
        return event

    def wait(self) -> float:
        pause, self.pause = self.pause, min(2 * self.pause, LONGEST_PAUSE)
        return pause


def _stop_reading(answer: httpx.Response) -> bool:
    """Whether reading events is pointless: the driver answered, and neither is it starting nor has too many readers."""
    return not answer.is_success and answer.status_code not in (429, 503)


class Client(_Base, Operations):
    """A client that waits for answers. Usable by one thread at a time."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def _client(self) -> httpx.Client:
        if self._http is None:
            self._http = httpx.Client(**self._options())
        return self._http

    def _call(self, method: str, path: str, body: Any) -> Any:
        conversation = _conversation(self, method, path, body)
        try:
            step = next(conversation)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = next(conversation)
                    continue
                answer: httpx.Response | httpx.TransportError
                try:
                    answer = self._client().request(**step)
                except httpx.TransportError as error:
                    answer = error
                step = conversation.send(answer)
        except StopIteration as end:
            return end.value

    def events(self, after: str | None = None) -> Iterator[Event | Living]:
        """What happens, as it happens, without end, and `living` with the executors that live.

        `living` is first where `after` is not given, or is too old; then its `gap` is true, and its `ended` has the last
        events of executors that have ended, of which some may have been read before. The stream is opened again,
        where it broke off, while the driver restarts.
        """
        place = _Place(after)
        while True:
            place.begin()
            headers = {**self._headers(), **place.headers()}
            try:
                timeout = httpx.Timeout(self._timeout, read=SILENCE)
                with self._client().stream("GET", "/v1/events", headers=headers, timeout=timeout) as answer:
                    if _stop_reading(answer):
                        answer.read()
                        raise _problem(answer)
                    if answer.is_success:
                        for line in answer.iter_lines():
                            if (event := place.line(line)) is not None:
                                yield event
            except httpx.TransportError:
                pass
            time.sleep(place.wait())


class AsyncClient(_Base, AsyncOperations):
    """A client to await, in one event loop."""

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = httpx.AsyncClient(**self._options())
        return self._http

    async def _call(self, method: str, path: str, body: Any) -> Any:
        conversation = _conversation(self, method, path, body)
        try:
            step = next(conversation)
            while True:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = next(conversation)
                    continue
                answer: httpx.Response | httpx.TransportError
                try:
                    answer = await self._client().request(**step)
                except httpx.TransportError as error:
                    answer = error
                step = conversation.send(answer)
        except StopIteration as end:
            return end.value

    async def events(self, after: str | None = None) -> AsyncIterator[Event | Living]:
        """As [`Client.events`]."""
        place = _Place(after)
        while True:
            place.begin()
            headers = {**self._headers(), **place.headers()}
            try:
                timeout = httpx.Timeout(self._timeout, read=SILENCE)
                async with self._client().stream("GET", "/v1/events", headers=headers, timeout=timeout) as answer:
                    if _stop_reading(answer):
                        await answer.aread()
                        raise _problem(answer)
                    if answer.is_success:
                        async for line in answer.aiter_lines():
                            if (event := place.line(line)) is not None:
                                yield event
            except httpx.TransportError:
                pass
            await asyncio.sleep(place.wait())
