"""The ready app as a project that Flower's own commands accept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recondite.federated.settings import Settings

__all__ = ["toml_lines", "write_app"]

_APP = '''"""The ready app of recondite, as Flower loads it."""

from recondite.federated.flower.app import client_app, server_app

__all__ = ["client_app", "server_app"]
'''
_PROJECT = """[project]
name = "recondite-federation"
version = "1.0.0"
description = "Federated training with a defence on the client and an auditor on the server"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "recondite"

[tool.flwr.app.components]
serverapp = "federation.apps:server_app"
clientapp = "federation.apps:client_app"

[tool.flwr.app.config.server]
"""


def write_app(folder: str | os.PathLike[str], settings: Settings) -> Path:
    """Writes the ready app as a Flower project; the settings are the server's."""
    place = Path(folder)
    package = place / "federation"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text('"""A federation."""\n')
    (package / "apps.py").write_text(_APP)
    (place / "pyproject.toml").write_text(_PROJECT + toml_lines(settings.to_config()))
    return place


def toml_lines(config: Mapping[str, Any]) -> str:
    """A configuration of strings and numbers as TOML writes it."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in config.items())


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
