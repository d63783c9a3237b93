"""The explorer's addresses: the page and its files, questions, studies, federations, uploads."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from recondite import _validate
from recondite._version import __version__
from recondite.explore.copies import copies
from recondite.explore.question import LOCKS, PARTICIPATIONS, THREATS, Query, Refused, typed
from recondite.explore.runs import Opened, Runs

__all__ = ["application"]

SCRIPTS = ("explore.js", "calibrate.js", "study.js", "federation.js")
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
_BEAT = 1.0  # seconds between two signs of life
_LOOK = 0.4  # seconds between two looks at a folder
_LARGEST = 64 * 2**20  # bytes of one file that is dropped on the page
_MOST_BODY = 2**20
_UPLOADED = re.compile(r"records\.jsonl|study\.json|gallery/[A-Za-z0-9._-]{1,80}\.npz")


class _GivenUp(Exception):  # noqa: N818
    """Nobody waits for the answer any more."""


def application(runs: Runs, uploads: Path, *, show_private: bool = False) -> Starlette:
    """The application, to be put behind a :class:`~recondite.explore.guard.RequestGuard`."""
    app = _App(runs, uploads, show_private=show_private)
    routes = [
        Route("/", app.page),
        Route("/assets/{name}", app.asset),
        Route("/live", app.live),
        Route("/state", app.state),
        Route("/answer", app.answer),
        Route("/watch/{run}", app.watch),
        Route("/federation/{run}", app.federation),
        Route("/report/{run}", app.report),
        Route("/open", app.open, methods=["POST"]),
        Route("/draft", app.draft, methods=["POST"]),
        Route("/study", app.start, methods=["POST"]),
        Route("/study/{run}/{what}", app.study, methods=["POST"]),
        Route("/upload", app.begin_upload, methods=["POST"]),
        Route("/upload/{name}/{file:path}", app.upload, methods=["PUT"]),
    ]
    return Starlette(routes=routes, exception_handlers={Refused: _refused})


class _App:
    def __init__(self, runs: Runs, uploads: Path, *, show_private: bool) -> None:
        self.runs, self.uploads, self.private = runs, uploads, show_private

    async def page(self, request: Request) -> Response:
        del request
        return Response(_asset("index.html"), media_type="text/html")

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in (*SCRIPTS, "style.css", "explore.css"):
            return Response(status_code=404)
        return Response(_asset(name), media_type=_TYPES[Path(name).suffix])

    async def live(self, request: Request) -> Response:
        """A sign of life every second: a page that misses them says so."""
        del request

        async def beats() -> AsyncIterator[str]:
            while True:
                yield _event("beat", {})
                await asyncio.sleep(_BEAT)

        return _stream(beats())

    async def state(self, request: Request) -> Response:
        """What the page begins with."""
        del request
        return JSONResponse(await asyncio.to_thread(self._state))

    def _state(self) -> dict[str, Any]:
        from recondite.explore.drafts import choices
        from recondite.mechanisms.registry import mechanisms

        return {
            "version": __version__,
            "out": str(self.runs.out),
            "private": self.private,
            "runs": [each.to_dict() for each in self.runs.listed()],
            "study": choices(),
            "defences": [
                {
                    "name": name,
                    "title": kind.heading or kind.title or name,
                    "parameter": kind.parameter,
                    "symbol": kind.symbol or kind.parameter,
                    "larger": kind.weaker == "larger",
                    "start": min(500.0 if kind.weaker == "larger" else 1.0, kind.search_range[1]),
                    "fields": [f for f in ("dim", "blocks") if f in kind.__dataclass_fields__],
                }
                for name, kind in mechanisms().items()
                if kind.parameter
            ],
        }

    async def answer(self, request: Request) -> Response:
        """A question: refused in one line, or a coarse answer and then the tight one."""
        form = dict(request.query_params)
        return _stream(self._answers(form))

    async def _answers(self, form: dict[str, str]) -> AsyncIterator[str]:
        from recondite.explore.solving import coarse, tight

        left = threading.Event()

        def tick() -> None:
            if left.is_set():
                raise _GivenUp

        try:
            asked = await asyncio.to_thread(self._asked, form)
            start = None
            try:
                rough = await asyncio.to_thread(coarse, asked)
            except Refused as error:
                # The coarse route may fail where the tight one does not.
                yield _event("pending", {"line": f"no coarse answer: {error}"})
            else:
                start = rough.question.mechanism.strength
                yield _event("coarse", rough.to_dict())
                yield _event("stored", await asyncio.to_thread(self._stored, rough.question, form))
            task = asyncio.create_task(asyncio.to_thread(tight, asked, start, tick))
            while not (await asyncio.wait([task], timeout=_BEAT))[0]:
                yield ": working\n\n"
            fine = task.result()
            yield _event("tight", {**fine.to_dict(), "copies": copies(fine.question)})
            yield _event("stored", await asyncio.to_thread(self._stored, fine.question, form))
        except Refused as error:
            yield _event("refused", {"field": error.field, "line": str(error)})
        except Exception as error:  # whatever it is: the page must not wait for ever
            line = f"{type(error).__name__}: {error}"
            yield _event("refused", {"field": "defence", "line": line})
        finally:
            left.set()
        yield _event("end", {})

    def _asked(self, form: dict[str, str]) -> Query:
        asked = Query.read(form)
        if asked.lock != LOCKS[-1]:
            return asked
        from dataclasses import replace

        from recondite.explore.stored import accurate

        # What a stored run measured is looked up, and the rest follows from its noise.
        return replace(accurate(asked, self._chosen(form)), lock="")

    def _stored(self, asked: Query, form: dict[str, str]) -> dict[str, Any]:
        from recondite.explore.stored import nearest

        return nearest(asked, self._chosen(form), show_private=self.private)

    def _chosen(self, form: dict[str, str]) -> list[Any]:
        """The open runs with rows, or the one that the form names."""
        from recondite.report.rows import read_runs

        wanted, found = form.get("run", ""), []
        for each in self.runs.listed():
            if wanted and each.id != wanted:
                continue
            try:
                found += read_runs([each.path])
            except ValueError:
                continue  # no finished row yet
        from dataclasses import replace

        return [replace(run, index=index) for index, run in enumerate(found)]

    async def watch(self, request: Request) -> Response:
        """A study as it grows."""
        from recondite.explore import watching

        query = request.query_params
        view = query.get("threat", THREATS[0]), query.get("participation", PARTICIPATIONS[0])
        try:
            opened = self.runs.find(request.path_params["run"])
            if view[0] not in THREATS or view[1] not in PARTICIPATIONS:
                raise Refused("view", "no such intruder")
        except Refused as error:
            return _refusing(error)
        return _stream(
            _snapshots(
                lambda: watching.stamp(opened),
                lambda: watching.snapshot(opened, view, show_private=self.private),
            )
        )

    async def federation(self, request: Request) -> Response:
        """A federation as it goes on."""
        from recondite.explore import federations

        try:
            opened = self.runs.find(request.path_params["run"])
            text = request.query_params.get("budget", "").strip()
            budget = typed(request.query_params, "budget", _validate.positive) if text else None
        except Refused as error:
            return _refusing(error)
        return _stream(
            _snapshots(
                lambda: federations.stamp(opened),
                lambda: federations.snapshot(opened, budget=budget, show_private=self.private),
            )
        )

    async def report(self, request: Request) -> Response:
        """The report of a finished study, to keep: the explorer's policy runs no script of it."""
        opened = self.runs.find(request.path_params["run"])
        path = opened.path / "report.html"
        if not path.is_file():
            raise Refused("run", "the report is not built yet")
        name = f"{re.sub(r'[^A-Za-z0-9._-]', '-', opened.name)}.html"
        return FileResponse(path, filename=name)

    async def open(self, request: Request) -> Response:
        """Opens a path of this machine."""
        form = await _json(request)
        text = str(form.get("path") or "").strip()
        if not text:
            raise Refused("path", "is empty: type the folder of a run")
        return _opened(await asyncio.to_thread(self.runs.open, Path(text).expanduser()))

    async def draft(self, request: Request) -> Response:
        """The study of the form, as YAML."""
        from recondite.explore.drafts import draft

        return JSONResponse({"yaml": draft(await _json(request))})

    async def start(self, request: Request) -> Response:
        """Starts a study."""
        from recondite.explore.drafts import begin

        form = await _json(request)
        folder = await asyncio.to_thread(begin, str(form.get("yaml") or ""), self.runs.out)
        return _opened(self.runs.open(folder))

    async def study(self, request: Request) -> Response:
        """Stops a study, or goes on with it."""
        from recondite.explore.drafts import go_on, stop

        opened = self.runs.find(request.path_params["run"])
        act = {"stop": stop, "go-on": go_on}.get(request.path_params["what"])
        if act is None:
            return Response(status_code=404)
        await asyncio.to_thread(act, opened.path)
        return JSONResponse(opened.to_dict())

    async def begin_upload(self, request: Request) -> Response:
        """A place for the files of a run that is dropped on the page."""
        form = await _json(request)
        name = secrets.token_hex(6)
        (self.uploads / name).mkdir()
        title = " ".join(str(form.get("title") or "dropped").split())[:80]
        (self.uploads / name / "title").write_text(title, encoding="utf-8")
        return JSONResponse({"name": name})

    async def upload(self, request: Request) -> Response:
        """One file of it; the records file comes last, and opens the run."""
        name, file = request.path_params["name"], request.path_params["file"]
        folder = self.uploads / name
        begun = re.fullmatch("[0-9a-f]{12}", name) and folder.is_dir()
        if not begun or not _UPLOADED.fullmatch(file):
            raise Refused("drop", "drop records.jsonl, or the folder of a run")
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        content = await _body(request, _LARGEST, "drop")
        await asyncio.to_thread(path.write_bytes, content)
        if path.name != "records.jsonl":
            return JSONResponse({})
        from recondite.studies.store import read_lines

        if not await asyncio.to_thread(read_lines, path):
            path.unlink()
            raise Refused("drop", "this file holds no row of a study: drop records.jsonl")
        title = (folder / "title").read_text(encoding="utf-8")
        return _opened(self.runs.open(folder, title))


async def _snapshots(
    stamp: Callable[[], Any], snapshot: Callable[[], dict[str, Any]]
) -> AsyncIterator[str]:
    """What is there now, and again whenever it changes."""
    last: Any = object()
    while True:
        try:
            now = await asyncio.to_thread(stamp)
            if now != last:
                last = now
                yield _event("snapshot", await asyncio.to_thread(snapshot))
            else:
                yield ": alive\n\n"
        except Exception as error:  # a file in the making: say so, and look again
            yield _event("trouble", {"line": f"{type(error).__name__}: {error}"})
        await asyncio.sleep(_LOOK)


def _stream(events: AsyncIterator[str]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream")


def _refusing(error: Refused) -> Response:
    """A stream that only says why there is none: the page cannot read a failed one."""

    async def line() -> AsyncIterator[str]:
        yield _event("refused", {"field": error.field, "line": str(error)})

    return _stream(line())


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n"


def _opened(found: list[Opened]) -> Response:
    return JSONResponse({"runs": [each.to_dict() for each in found]})


async def _json(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await _body(request, _MOST_BODY, "form"))
    except ValueError as error:
        if isinstance(error, Refused):
            raise
        raise Refused("form", "the request is not JSON") from None
    if not isinstance(found, dict):
        raise Refused("form", "the request is not a form")
    return found


async def _body(request: Request, most: int, field: str) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refused(field, f"is larger than {most // 2**20} MB")
        parts.append(part)
    return b"".join(parts)


async def _refused(request: Request, error: Exception) -> Response:
    del request
    field = error.field if isinstance(error, Refused) else ""
    return JSONResponse({"field": field, "line": str(error)}, status_code=422)


def _asset(name: str) -> str:
    room = "recondite.report" if name == "style.css" else "recondite.explore"
    return resources.files(room).joinpath("assets", name).read_text(encoding="utf-8")
