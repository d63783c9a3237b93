"""A ready Flower app: clients with shares of a data set, any defence, an auditing server.

``client_app`` and ``server_app`` are what Flower loads. They read :class:`Settings` from the
run's configuration; a SuperNode's own ``--node-config`` wins over it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite.federated.budget import Budget
from recondite.federated.flower import flower
from recondite.federated.local import Streams, train_locally
from recondite.federated.mod import defend
from recondite.federated.settings import CHANNELS, Settings
from recondite.federated.shares import channel_for, initial_model, share_of
from recondite.mechanisms import NoNoise

__all__ = ["client_app", "defence_of", "server_app", "train"]

_STREAMS = "recondite.streams"


def settings_of(message: Any, context: Any) -> Settings:
    """The settings of a message: the run's, the server's for this message, the node's own."""
    sent = dict(message.content.config_records.get("config", {})) if message else {}
    return Settings.of(context.run_config, sent, context.node_config)


def defence_of(settings: Settings) -> Any:
    """The mod that the settings describe; None without a defence."""
    if settings.defence == "none":
        return None
    seed = settings.seed_or_none
    ledger = settings.ledger or None
    limit = settings.budget_epsilon
    budget = Budget(epsilon=limit) if limit > 0 else None
    if settings.defence in CHANNELS:
        once = settings.noise == "once"
        return defend(
            channel=channel_for(settings),
            noise=settings.noise,
            ledger=ledger,
            budget=budget,
            seed=None if once else seed,
        )
    if settings.level == "record" and settings.mechanism_name:
        return defend(ledger=ledger, budget=budget, seed=seed)
    mechanism = settings.mechanism() or NoNoise(clip=True)
    return defend(mechanism, max_norm=settings.max_norm, ledger=ledger, budget=budget, seed=seed)


def _defended(message: Any, context: Any, call_next: Any) -> Any:
    """The mod of the ready app: the defence of the settings, if there is one."""
    chosen = defence_of(settings_of(message, context))
    return call_next(message, context) if chosen is None else chosen(message, context, call_next)


def train(message: Any, context: Any) -> Any:
    """Trains on the client's share and returns the weights, undefended: the mod does the rest."""
    app = flower()
    settings = settings_of(message, context)
    model = initial_model(settings)
    _load(model, message.content["arrays"])
    client = int(context.node_config.get("partition-id", 0))
    records = share_of(settings, client)
    # One stream a federation: a simulation may run several, one after the other.
    place = f"{_STREAMS}.{settings.partition}.{settings.local_steps}.{settings.label}"
    kept = context.state.config_records
    outcome = train_locally(
        model, records, settings, Streams.of(dict(kept[place]) if place in kept else {})
    )
    if settings.seed_or_none is not None:
        kept[place] = app.ConfigRecord(outcome.streams.to_config())
    if settings.truth:
        _leave_truth(settings, message, context, outcome.batches)
    content = app.RecordDict(
        {
            "arrays": app.ArrayRecord(model.state_dict()),
            "metrics": app.MetricRecord({"num-examples": len(records), "train-loss": outcome.loss}),
        }
    )
    return app.Message(content, reply_to=message)


def _load(model: Any, record: Any) -> None:
    values = {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}
    model.load_state_dict(values)


def _leave_truth(settings: Settings, message: Any, context: Any, batches: Any) -> None:
    """In a simulation: what this client trained on, for the auditor to score against."""
    folder = Path(settings.truth)
    folder.mkdir(parents=True, exist_ok=True)
    number = int(message.content["config"]["server-round"])
    images = np.stack([images.numpy() for images, _ in batches])
    labels = np.stack([labels.numpy() for _, labels in batches])
    draft = folder / f".{number}-{context.node_id}.npz"
    np.savez(draft, images=images, labels=labels, allow_pickle=False)
    draft.replace(folder / f"{number}-{context.node_id}.npz")


def _client_app() -> Any:
    app = flower("flwr.clientapp").ClientApp(mods=[_defended])
    app.train()(train)
    return app


def _server_app() -> Any:
    app = flower("flwr.serverapp").ServerApp()

    app.main()(_main)
    return app


def _main(grid: Any, context: Any) -> None:
    from recondite.federated.server import federate

    federate(grid, Settings.of(context.run_config))


client_app = _client_app()
server_app = _server_app()
