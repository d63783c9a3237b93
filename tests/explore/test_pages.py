"""The explorer's addresses, without a network."""

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from recondite.explore import pages
from recondite.explore.pages import application
from recondite.explore.runs import Runs


@pytest.fixture
def app(tmp_path, study):
    (tmp_path / "uploads").mkdir()
    return application(Runs(tmp_path / "out", [study]), tmp_path / "uploads")


@pytest.fixture
def inner(tmp_path, study):
    return pages._App(Runs(tmp_path / "out", [study]), tmp_path, show_private=False)


def events(stream, most=50):
    """The events of a stream, up to its end."""

    async def gather():
        out = []
        async for text in stream:
            if found := re.match(r"event: (\w+)\ndata: (.*)\n\n", text):
                out.append((found[1], json.loads(found[2])))
            if len(out) >= most:
                break
        return out

    return asyncio.run(gather())


def test_the_page_and_its_files_are_ours_alone(app, send):
    page = send(app, "GET", "/")[2].decode()
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert "<style" not in page
    assert " style=" not in page
    assert not re.search(r"<script(?![^>]* src=)", page)
    for name in re.findall(r"/assets/([a-z.]+)", page):
        status, headers, body = send(app, "GET", f"/assets/{name}")
        assert status == 200
        assert body
        assert headers["content-type"].startswith(("text/css", "text/javascript"))
    assert send(app, "GET", "/assets/server.py")[0] == 404
    assert send(app, "GET", "/assets/..%2fserver.py")[0] == 404


def test_the_state_lists_defences_and_runs_without_torch(app, send):
    found = json.loads(send(app, "GET", "/state")[2])
    assert [run["name"] for run in found["runs"]] == ["games"]
    assert {"gaussian", "vmf"} <= {one["name"] for one in found["defences"]}
    assert "none" not in {one["name"] for one in found["defences"]}
    assert found["study"]["data"] == "mnist-5k"


def test_an_answer_comes_coarse_then_tight_with_copies(inner, form):
    found = events(inner._answers(form()))
    assert [kind for kind, _ in found] == ["coarse", "stored", "tight", "stored", "end"]
    rough, near, fine = found[0][1], found[1][1], found[2][1]
    assert rough["epsilon"] >= fine["epsilon"]
    assert set(fine["copies"]) == {"python", "command", "yaml"}
    assert near["run"] == "demo"
    assert near["images"]["pictures"]


def test_a_mistake_is_an_event_with_its_field(inner, form):
    found = events(inner._answers(form(value="x")))
    assert found[0] == (
        "refused",
        {"field": "value", "line": "'x' is no number or fraction such as 1/60000"},
    )
    assert found[-1][0] == "end"


def test_an_accuracy_is_looked_up_and_never_made_up(inner, form):
    found = dict(events(inner._answers(form(lock="accuracy", target="0.85"))))
    stored = found["stored"]
    assert found["tight"]["value"] in (0.5, 1.0, 2.0, 4.0)
    assert not any(line.startswith("noise multiplier") for line in stored["differs"])
    refused = dict(events(inner._answers(form(lock="accuracy", target="0.999"))))["refused"]
    assert refused["field"] == "target"
    assert "best that a stored run measured" in refused["line"]


def test_a_folder_is_opened_or_refused_in_one_line(app, send, tmp_path, study):
    status, _, body = send(app, "POST", "/open", {"path": str(study)})
    assert status == 200
    assert json.loads(body)["runs"][0]["name"] == "games"
    for path, line in (
        (tmp_path / "none", "is not there"),
        (tmp_path / "uploads", "holds no"),
        ("", "is empty"),
    ):
        status, _, body = send(app, "POST", "/open", {"path": str(path)})
        assert status == 422
        assert json.loads(body)["field"] == "path"
        assert line in json.loads(body)["line"]
    assert send(app, "POST", "/open", b"not json")[0] == 422
    assert send(app, "POST", "/open", b"[1]")[0] == 422


def test_a_dropped_run_is_opened_with_its_images(app, send, study):
    name = json.loads(send(app, "POST", "/upload", {"title": "mine"})[2])["name"]
    gallery = next((study / "gallery").glob("*.npz"))
    for file in (f"gallery/{gallery.name}", "study.json", "records.jsonl"):
        status, _, body = send(app, "PUT", f"/upload/{name}/{file}", (study / file).read_bytes())
        assert status == 200
    assert json.loads(body)["runs"][0]["name"] == "mine"


@pytest.mark.parametrize(
    "file", ["../records.jsonl", "gallery/../../x.npz", "other.txt", "gallery/a/b.npz", "title"]
)
def test_nothing_else_can_be_uploaded(app, send, file):
    name = json.loads(send(app, "POST", "/upload", {"title": "mine"})[2])["name"]
    assert send(app, "PUT", f"/upload/{name}/{file}", b"{}")[0] in (404, 422)
    assert send(app, "PUT", "/upload/000000000000/records.jsonl", b"{}")[0] == 422


def test_a_file_without_rows_is_refused(app, send):
    name = json.loads(send(app, "POST", "/upload", {"title": "mine"})[2])["name"]
    status, _, body = send(app, "PUT", f"/upload/{name}/records.jsonl", b"hello\n")
    assert status == 422
    assert json.loads(body)["field"] == "drop"


def test_a_file_that_is_too_large_is_refused(app, send, monkeypatch):
    monkeypatch.setattr(pages, "_LARGEST", 10)
    name = json.loads(send(app, "POST", "/upload", {"title": "mine"})[2])["name"]
    status, _, body = send(app, "PUT", f"/upload/{name}/records.jsonl", b"x" * 11)
    assert status == 422
    assert "larger than" in json.loads(body)["line"]


def test_streams_say_why_there_is_nothing_to_follow(inner, study):
    query = {"budget": "much", "threat": "training", "participation": "secret"}
    request = SimpleNamespace(path_params={"run": "none"}, query_params=query)
    for stream in (inner.watch, inner.federation):
        answer = asyncio.run(stream(request))
        assert events(answer.body_iterator)[0][0] == "refused"
    request.path_params["run"] = inner.runs.listed()[0].id
    answer = asyncio.run(inner.federation(request))
    assert events(answer.body_iterator)[0][1]["field"] == "budget"


def test_a_study_is_shown_at_once_and_again_when_it_grows(inner, study):
    run = {"run": inner.runs.listed()[0].id}
    request = SimpleNamespace(path_params=run, query_params={})
    rows = (study / "records.jsonl").read_bytes().splitlines(keepends=True)
    (study / "records.jsonl").write_bytes(b"".join(rows[:3]))

    async def go():
        answer = await inner.watch(request)
        counts = []
        async for text in answer.body_iterator:
            if text.startswith("event: snapshot"):
                counts.append(json.loads(text.split("data: ")[1])["count"])
                with (study / "records.jsonl").open("ab") as file:
                    file.write(rows[2 + len(counts)])
            if len(counts) == 3:
                return counts

    assert asyncio.run(go()) == [3, 4, 5]


def test_studies_and_reports_of_unknown_runs_are_refused(app, send, study):
    assert send(app, "POST", "/study/none/stop", {})[0] == 422
    assert send(app, "GET", "/report/none")[0] == 422
    known = json.loads(send(app, "GET", "/state")[2])["runs"][0]["id"]
    assert send(app, "GET", f"/report/{known}")[0] == 422
    assert send(app, "POST", f"/study/{known}/explode", {})[0] == 404
    (study / "report.html").write_text("<p>hello")
    status, headers, _ = send(app, "GET", f"/report/{known}")
    assert status == 200
    assert headers["content-disposition"].startswith("attachment")


def test_every_control_of_the_page_is_driven_in_a_browser():
    """Whoever adds a control adds the test that uses it: each is named in that file."""
    assets = Path(pages.__file__).parent / "assets"
    driven = (Path(__file__).parents[1] / "acceptance/test_explore_browser.py").read_text("utf-8")
    page = (assets / "index.html").read_text("utf-8")
    controls = re.findall(r"<(?:input|select|textarea|button|details)\b[^>]*", page)
    assert len(controls) > 40
    for control in controls:
        name = re.search(r' (id|data-copy)="([^"]+)"', control)
        if name is None:
            assert control == '<button class="quiet"', control  # opens the path beside it
            assert 'page.click("#open button")' in driven
            continue
        # Fields of the setting are filled in loops over their names.
        known = {"id": (f"#{name[2]}", f'"{name[2]}"'), "data-copy": (f"data-copy={name[2]}",)}
        assert any(one in driven for one in known[name[1]]), control
