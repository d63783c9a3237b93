"""Requests to the explorer without a network, and a setting as the form sends it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import synthetic

FORM = {
    "defence": "gaussian", "value": "1", "dim": "13706", "sampling": "poisson", "records": "4000",
    "batch_size": "128", "epochs": "10", "delta": "1e-5", "prior": "0.1", "candidates": "10",
    "threat": "training", "participation": "secret", "lock": "", "target": "", "solve": "noise",
}  # fmt: skip


@pytest.fixture
def form():
    return lambda **changes: {**FORM, **changes}


@pytest.fixture
def study(tmp_path):
    """A finished run with images."""
    folder = tmp_path / "games"
    rows = synthetic.modern_rows()
    synthetic.pictures(folder, rows)
    return synthetic.write(folder, rows)


@pytest.fixture
def send():
    """One request to an ASGI application; returns status, headers and the body's first part."""

    def go(app, method, address, body=b"", **headers):
        path, _, query = address.partition("?")
        given = {"host": "127.0.0.1:8000", **headers}
        if method != "GET":
            given.setdefault("origin", "http://127.0.0.1:8000")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "scheme": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()],
        }  # fmt: skip
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent, parts = [], []

        async def receive():
            return {"type": "http.request", "body": content, "more_body": False}

        async def take(message):
            if message["type"] == "http.response.start":
                sent.append(message)
            else:
                parts.append(message.get("body", b""))

        asyncio.run(app(scope, receive, take))
        found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return sent[0]["status"], found, b"".join(parts)

    return go
