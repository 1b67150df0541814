"""What is refused, and how: problem+json that names the field, says what is known and what to do; nothing of ours
leaks.
"""

from __future__ import annotations

import json
import threading

import pytest

SHAPE = {"M": 1, "N": 4096, "K": 4096}
JSON = {"Content-Type": "application/json"}


def problem(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"type", "title", "status", "detail", "slug", "instance", "errors"}
    assert body["type"] == f"urn:roofline-bench:error:{body['slug']}"
    assert body["status"] == status
    return body


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("/api/analyze", {**SHAPE, "precision": "FP17"}, "precision", "Did you mean FP16"),
        ("/api/analyze", {**SHAPE, "weight_precision": "INT5"}, "weight_precision", "unknown format"),
        ("/api/analyze?hardware_key=h101", SHAPE, "hardware_key", "Did you mean h100"),
        ("/api/analyze", {**SHAPE, "M": 0}, "M", "got 0"),
        ("/api/analyze", {**SHAPE, "M": 10**10}, "M", "got 10000000000"),
        ("/api/analyze", {**SHAPE, "M": "1"}, "M", "got '1'"),
        ("/api/analyze", {**SHAPE, "M": True}, "M", "got true"),
        ("/api/analyze", {"M": 1, "N": 1}, "K", "K is missing"),
        ("/api/analyze", {**SHAPE, "m": 1}, "m", "unknown field"),
        ("/api/recommend", {**SHAPE, "phase": "both"}, "phase", "got 'both'"),
        (
            "/api/recommend",
            {**SHAPE, "memory_limit_gb": -1},
            "memory_limit_gb",
            "got -1",
        ),
        ("/api/recommend", {**SHAPE, "formats": ["FP8", "FP17"]}, "formats", "unknown format"),
        (
            "/api/recommend",
            {**SHAPE, "formats": []},
            "formats",
            "got a list of 0",
        ),
        ("/api/sweep", {**SHAPE, "formats": ["FP17"]}, "formats", "unknown format"),
        ("/api/sweep", {**SHAPE, "hardware": ["zz"]}, "hardware", "unknown hardware"),
        ("/api/models/llama-3.1-8b/predict", {"formats": "FP17"}, "formats", "FP17"),
        ("/api/models/llama-3.1-8b/predict", {"context_tokens": 10**9}, "formats", "context"),
    ],
)
def test_a_wrong_value_names_its_field(api_client, path, body, field, words):
    problem_body = problem(api_client.post(path, json=body), 422)
    assert problem_body["errors"][0]["field"].split(".")[0] == field
    assert words in problem_body["errors"][0]["message"]
    assert problem_body["instance"] == path.partition("?")[0]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "..%2f..%2fetc%2fpasswd", "x.toml", "C:\\x", "%00", "~/x", "file:%2f%2fx", "a" * 60]
)
def test_no_name_of_a_request_becomes_a_path(api_client, monkeypatch, name):
    def opened(*_, **__):
        raise AssertionError("a request reached the file system")

    api_client.get("/api/hardware")  # the catalog is read once, before
    for thread in threading.enumerate():
        if thread.name == "roofline-warm-up":  # it imports and reads files, whatever is asked
            thread.join(60)
    for target in ("pathlib.Path.open", "pathlib.Path.exists", "pathlib.Path.read_text", "builtins.open"):
        monkeypatch.setattr(target, opened)
    assert api_client.post(f"/api/analyze?hardware_key={name}", json=SHAPE).status_code == 422
    assert api_client.get(f"/api/hardware/{name}").status_code == 404
    assert api_client.post(f"/api/models/{name}/predict", json={}).status_code == 404
    assert api_client.post("/api/analyze", json={**SHAPE, "precision": name[:40]}).status_code == 422
    for folder in ("explorer", "vendor"):
        assert api_client.get(f"/{folder}/{name}").status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{M:1}", 400),
        (b"", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"x"', 422),
        (b"[" * 100_000, 400),
        (b"\xff\xfe", 400),
        (b'{"M":NaN,"N":1,"K":1}', 422),
        (b'{"M":Infinity,"N":1,"K":1}', 422),
        (b'{"M":1e400,"N":1,"K":1}', 422),
        (b'{"M":' + b"9" * 5_000 + b',"N":1,"K":1}', 400),
        (rb'{"M":1,"N":1,"K":1,"precision":"\ud800"}', 422),
        (rb'{"M":1,"N":1,"K":1,"\ud800":1}', 422),
        (b'{"M":1,"N":1,"K":1,"precision":"\\u0000"}', 422),
    ],
)
def test_bodies_that_are_no_requests(api_client, body, status):
    problem(api_client.post("/api/analyze", content=body, headers=JSON), status)


def test_nan_is_refused_where_a_number_may_be_a_fraction(api_client):
    body = b'{"M":1,"N":1,"K":1,"memory_limit_gb":NaN}'
    assert (
        problem(api_client.post("/api/recommend", content=body, headers=JSON), 422)["errors"][0]["field"]
        == "memory_limit_gb"
    )


@pytest.mark.parametrize("path", ["/api/analyze", "/api/sweep", "/api/models/llama-3.1-8b/predict"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "application/jsonx", ""])
def test_a_body_that_is_not_declared_as_json_says_how_to_declare_it(api_client, path, kind):
    response = api_client.post(path, content=json.dumps(SHAPE), headers={"Content-Type": kind})
    assert "-H 'Content-Type: application/json'" in problem(response, 415)["detail"]


def test_what_is_declared_as_json_in_other_words_is_read(api_client):
    for kind in ("application/json;charset=utf-8", "Application/JSON", "application/problem+json"):
        assert (
            api_client.post("/api/analyze", content=json.dumps(SHAPE), headers={"Content-Type": kind}).status_code
            == 200
        )
    assert problem(api_client.post("/api/analyze"), 422)["detail"].startswith("body: the body is missing; ")


@pytest.mark.parametrize(
    ("path", "body", "field", "words", "nearest"),
    [
        ("/api/analyze?hardware=h100", SHAPE, "hardware", "did you mean hardware_key?", ["hardware_key"]),
        ("/api/analyze?hardware_key=h100&M=8", SHAPE, "M", "this path takes hardware_key", []),
        ("/api/sweep?hw=h100", {**SHAPE, "formats": ["FP16"]}, "hw", "this path takes hardware_key", []),
        ("/api/recommendations?hardware=h100", None, "hardware", "did you mean hardware_key?", ["hardware_key"]),
        ("/api/runs?limits=3", None, "limits", "did you mean limit?", ["limit"]),
        ("/api/formats?x", None, "x", "this path takes none", []),
        ("/api/health?x=1", None, "x", "this path takes none", []),
    ],
)
def test_an_unknown_parameter_is_refused_and_the_nearest_is_named(api_client, path, body, field, words, nearest):
    response = api_client.get(path) if body is None else api_client.post(path, json=body)
    (wrong,) = problem(response, 422)["errors"]
    assert (wrong["field"], wrong["location"], wrong["nearest"]) == (field, "query", nearest)
    assert words in wrong["message"]


def test_every_endpoint_refuses_what_it_does_not_declare(api_client):
    paths = api_client.get("/api/openapi.json").json()["paths"]
    request_count = 0
    for path, operations in paths.items():
        for method in operations:
            answer = api_client.request(method, f"{path}?no_such_parameter=1", json={} if method == "post" else None)
            assert problem(answer, 422)["errors"][0]["field"] == "no_such_parameter", path
            request_count += 1
    assert request_count >= 20


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"N": [1, "x", 0]}, {"N[1]": "got 'x'", "N[2]": "got 0"}),
        (
            {"M": 0, "K": []},
            {
                "M": "got 0",
                "K": "got a list of 0",
            },
        ),
        (
            {"N": None},
            {"N": "got null"},
        ),
        ({"hardware": ["gb10", 3]}, {"hardware[1]": "got 3"}),
    ],
)
def test_a_field_of_a_sweep_is_named_once_and_an_element_by_its_place(api_client, sizes, named):
    problem_body = problem(api_client.post("/api/sweep", json={**SHAPE, **sizes}), 422)
    assert [error["field"] for error in problem_body["errors"]] == list(named)
    assert all(words in error["message"] for error, words in zip(problem_body["errors"], named.values(), strict=True))
    assert "constrained" not in json.dumps(problem_body)


def test_unknown_paths_and_methods(api_client):
    assert problem(api_client.get("/api/zz"), 404)["slug"] == "not-found"
    assert problem(api_client.get("/zz"), 404)["slug"] == "not-found"
    response = api_client.get("/api/analyze")
    assert problem(response, 405)["slug"] == "method-not-allowed"
    assert "POST" in response.headers["allow"]


def test_a_text_from_the_request_is_cut_and_cleaned(api_client):
    name = "\x1b[2J‮" + "x" * 30
    problem_body = problem(api_client.post("/api/analyze", json={**SHAPE, "precision": name}), 422)
    assert "\x1b" not in problem_body["detail"]
    assert "‮" not in problem_body["detail"]


def test_a_fault_tells_nothing_of_its_innards(api_database, monkeypatch):
    from fastapi.testclient import TestClient

    from reports.api.http.app import create_app
    from reports.api.predict import product

    def broken(*_):
        raise RuntimeError("secret innards")

    monkeypatch.setattr(product, "predict_product", broken)
    with TestClient(create_app(api_database), raise_server_exceptions=False) as client:
        response = client.post("/api/analyze", json=SHAPE)
    assert problem(response, 500)["slug"] == "fault"
    assert "secret" not in response.text
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


def test_what_is_refused_has_the_headers_of_every_answer(api_database):
    from fastapi.testclient import TestClient

    from reports.api.http.app import create_app
    from reports.api.http.service import Limits

    app = create_app(api_database, allowed_hosts=["testserver"], limits=Limits(max_body_bytes=100))
    with TestClient(app, raise_server_exceptions=False) as client:

        def broken(*_):
            raise RuntimeError("secret innards")

        app.state.service.store.reading = broken
        good = client.get("/api/formats").headers
        problems = {
            404: client.get("/zz"),
            405: client.get("/api/analyze"),
            413: client.post("/api/analyze", content=b"x" * 101, headers=JSON),
            421: client.get("/api/formats", headers={"Host": "evil.example"}),
            422: client.post("/api/analyze", json={}),
            400: client.post("/api/analyze", content=b"{", headers=JSON),
            500: client.get("/api/runs"),
        }
    guards = {
        name for name in good if name.startswith(("x-", "cross-", "content-security", "referrer", "server-timing"))
    }
    assert len(guards) >= 6
    for status, answer in problems.items():
        assert problem(answer, status)
        assert guards <= set(answer.headers), status
        assert answer.headers["cache-control"] == "no-store"


def test_no_message_says_where_the_database_is(tmp_path):
    from fastapi.testclient import TestClient

    from reports.api.http.app import create_app
    from results.store.store import open_store

    folder = tmp_path / "hidden-place"
    folder.mkdir()
    (folder / "damaged.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 5_000)
    with open_store(folder / "empty.db"):
        pass
    paths = (
        "/api/runs/latest",
        "/api/runs/abcd",
        "/api/diff",
        "/api/recommendations",
        "/api/runs/latest/report",
        "/api/cases/0123456789abcdef/history",
    )
    statuses = set()
    for name in ("damaged.db", "empty.db", "none.db"):
        with TestClient(create_app(folder / name)) as client:
            for path in paths:
                answer = client.get(path)
                statuses.add(answer.status_code)
                assert "hidden-place" not in answer.text, (name, path, answer.text)
                assert str(tmp_path) not in answer.text
    assert statuses >= {404, 503}


def test_a_folder_in_place_of_the_database_is_told_in_words_that_read(tmp_path):
    from fastapi.testclient import TestClient

    from reports.api.http.app import create_app

    with TestClient(create_app(tmp_path)) as client:
        detail = problem(client.get("/api/runs"), 503)["detail"]
    assert detail == "the results database is a folder: name a file in it"
