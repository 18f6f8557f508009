"""What all calls share: the request, its time limit and errors. Integers of any size are exact: JSON and Python agree about them."""

from __future__ import annotations

import json
import time
from http.client import HTTPException
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener


class ParhelionError(Exception):
    """A call that failed.

    ``kind`` is ``rpc`` (an error of a JSON-RPC call), ``http`` (a refusal of a route), ``timeout``, ``connection`` (no answer came) or
    ``answer`` (what came is no answer of the daemon).
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: Optional[int] = None,
        code: Optional[int] = None,
        details: Optional[str] = None,
        data: Any = None,
        retry_after: Optional[int] = None,
        request_id: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        #: HTTP status; None where no answer came.
        self.status = status
        #: Code of a JSON-RPC error.
        self.code = code
        #: The reason, as one sentence.
        self.details = details
        #: ``data`` of a JSON-RPC error.
        self.data = data
        #: Seconds after which a retry may help.
        self.retry_after = retry_after
        #: The request in the log of the daemon.
        self.request_id = request_id


class _NoRedirect(HTTPRedirectHandler):
    """Another host must not get the key."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


class Client:
    """Calls a daemon. ``timeout`` is in seconds: how long it may be silent, for each attempt. ``retries`` is how often a read or a call is
    sent again when the daemon says when (``Retry-After`` of 429 and 503)."""

    _KEY_HEADER = ""

    def __init__(self, base_url: str, api_key: Optional[str] = None, *, timeout: float = 30.0, retries: int = 2) -> None:
        self._base = base_url.rstrip("/")
        self._api_key = api_key
        self._timeout = timeout
        self._retries = retries
        self._opener = build_opener(_NoRedirect())

    def call(self, method: str, params: Union[Mapping[str, Any], Sequence[Any], None] = None, *, timeout: Optional[float] = None) -> Any:
        """Calls any method of JSON-RPC, also one that this package does not know."""
        body: Dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params is not None:
            body["params"] = params
        answer = self._repeat(self._retries, "POST", "/", {}, body, True, False, timeout)
        if not isinstance(answer, dict) or "result" not in answer:
            raise ParhelionError("answer", "The answer has no result")
        return answer["result"]

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Any = None,
        needs_key: bool = True,
        is_text: bool = False,
        timeout: Optional[float] = None,
    ) -> Any:
        """Calls a route."""
        retries = self._retries if method == "GET" else 0
        return self._repeat(retries, method, path, query or {}, body, needs_key, is_text, timeout)

    def _repeat(self, retries: int, *request: Any) -> Any:
        attempt = 0
        while True:
            try:
                return self._attempt(*request)
            except ParhelionError as error:
                if error.retry_after is None or attempt >= retries:
                    raise
                attempt += 1
                time.sleep(error.retry_after)

    def _attempt(
        self, method: str, path: str, query: Mapping[str, Any], body: Any, needs_key: bool, is_text: bool, timeout: Optional[float]
    ) -> Any:
        headers = {"Accept": "application/json", "User-Agent": "parhelion-sdk-python"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if needs_key and self._api_key is not None:
            headers[self._KEY_HEADER] = self._api_key
        request = Request(f"{self._base}{path}{_query_text(query)}", data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout if timeout is None else timeout) as response:
                return _read_answer(response.status, response.headers, response.read(), is_text)
        except HTTPError as error:
            with error:
                return _read_answer(error.code, error.headers, error.read(), is_text)
        except TimeoutError as error:
            raise ParhelionError("timeout", "The daemon did not answer in time") from error
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError) or "timed out" in str(reason):
                raise ParhelionError("timeout", "The daemon did not answer in time") from error
            raise ParhelionError("connection", "The daemon cannot be reached") from error


def segment(value: object) -> str:
    """Percent-encodes a parameter of a path."""
    return quote(str(value), safe="")


def given(*values: Any) -> Optional[List[Any]]:
    """Params by position: what is absent at the end is left out, what is absent before it is null."""
    items = list(values)
    while items and items[-1] is None:
        items.pop()
    return items or None


def named(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Params by name, without those that are absent."""
    return {name: value for name, value in values.items() if value is not None}


def _query_text(query: Mapping[str, Any]) -> str:
    parts = []
    for name, value in query.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None:
                parts.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return f"?{urlencode(parts)}" if parts else ""


def _read_answer(status: int, headers: Any, content: bytes, is_text: bool) -> Any:
    text = content.decode("utf-8", "replace")
    is_failure = not 200 <= status <= 299
    value: Any = text if is_text and not is_failure else _parsed(status, text, is_failure)
    is_rpc = isinstance(value, dict) and value.get("jsonrpc") == "2.0" and isinstance(value.get("error"), dict)
    if not is_failure and not is_rpc:
        return value
    after = headers.get("Retry-After")
    raise _failure_of(
        value,
        text,
        {
            "status": status,
            "retry_after": int(after) if after is not None and after.isdigit() else None,
            "request_id": headers.get("X-Request-Id"),
        },
    )


def _parsed(status: int, text: str, is_failure: bool) -> Any:
    if text == "":
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        if is_failure:
            return None
        raise ParhelionError("answer", "The answer is not JSON", status=status) from error


def _failure_of(value: Any, text: str, facts: Dict[str, Any]) -> ParhelionError:
    """The shapes of errors: {jsonrpc, error: {code, message, data}}, {error, details}, {message, error}, or a text."""
    members = value if isinstance(value, dict) else {}
    error = members.get("error")
    if isinstance(error, dict):
        data = error.get("data")
        details = data.get("details") if isinstance(data, dict) else None
        return ParhelionError("rpc", str(error.get("message")), code=error.get("code"), data=data, details=details, **facts)
    said = [one for one in (members.get("message"), error) if isinstance(one, str)]
    message = said[0] if said else text[:200] or f"HTTP {facts['status']}"
    return ParhelionError("http", message, details=members.get("details"), **facts)
