"""Who gets in: this machine's own page with the token, and nobody else."""

import pytest
from starlette.responses import PlainTextResponse

from recondite.explore.guard import POLICY, RequestGuard

TOKEN = "a-token-that-nobody-guesses"
HOME = "http://127.0.0.1:8000"


@pytest.fixture
def guarded():
    return RequestGuard(PlainTextResponse("inside"), TOKEN, 8000)


def cookie(token=TOKEN, port=8000):
    return f"recondite-{port}={token}"


def test_the_token_becomes_a_cookie_and_leaves_the_address(guarded, send):
    status, headers, _ = send(guarded, "GET", f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "/")
    given = headers["set-cookie"].lower()
    assert cookie().lower() in given
    assert "httponly" in given
    assert "samesite=strict" in given
    assert send(guarded, "GET", "/", cookie=cookie())[2] == b"inside"


@pytest.mark.parametrize(
    ("method", "address", "headers"),
    [
        ("GET", "/", {}),
        ("GET", "/?token=", {}),
        ("GET", "/?token=wrong", {}),
        ("GET", f"/state?token={TOKEN}", {}),
        ("GET", "/", {"cookie": cookie("wrong")}),
        ("GET", "/", {"cookie": cookie(port=8001)}),
        ("GET", "/", {"cookie": cookie(), "host": "evil.example:8000"}),
        ("GET", "/", {"cookie": cookie(), "host": "127.0.0.1:9000"}),
        ("GET", f"/?token={TOKEN}", {"host": "rebound.example"}),
        ("GET", "/", {"cookie": cookie(), "origin": "http://evil.example"}),
        ("GET", "/", {"cookie": cookie(), "origin": "http://127.0.0.1:9000"}),
        ("GET", "/", {"cookie": cookie(), "origin": "null"}),
        ("GET", "/", {"cookie": cookie(), "sec_fetch_site": "cross-site"}),
        ("GET", "/", {"cookie": cookie(), "sec_fetch_site": "same-site"}),
        ("POST", "/open", {"cookie": cookie(), "origin": "http://evil.example"}),
        ("POST", "/open", {}),
    ],
)
def test_strangers_are_refused_in_one_line(guarded, send, method, address, headers):
    status, answered, body = send(guarded, method, address, **headers)
    assert status == 403
    assert body != b"inside"
    assert body.count(b"\n") == 1
    assert TOKEN.encode() not in body
    assert "set-cookie" not in answered


def test_a_change_needs_an_origin(guarded, send):
    assert send(guarded, "POST", "/open", cookie=cookie(), origin=HOME)[0] == 200
    scope_without = {"cookie": cookie(), "origin": ""}
    assert send(guarded, "POST", "/open", **scope_without)[0] == 403


def test_every_response_has_the_policy(guarded, send):
    for headers in ({}, {"cookie": cookie()}):
        found = send(guarded, "GET", "/", **headers)[1]
        assert found["content-security-policy"] == POLICY
        assert found["cache-control"] == "no-store"
        assert found["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
