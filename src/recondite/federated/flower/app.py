"""A ready Flower app: clients with shares of a data set, any defence, an auditing server.

``client_app`` and ``server_app`` are what Flower loads. The client goes by the
:class:`~recondite.federated.policy.Policy` of its node (``--node-config``); the server reads the
keys that begin with ``server.`` of the run's configuration.
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recondite._files import replaced
from recondite.federated.cost import Budget
from recondite.federated.flower import flower, log
from recondite.federated.flower.mod import defend
from recondite.federated.flower.replies import error_reply, server_round
from recondite.federated.flower.secure import secured
from recondite.federated.local import Streams, train_locally
from recondite.federated.policy import Policy, StayOutError
from recondite.federated.settings import Settings
from recondite.federated.shares import channel_for, initial_model, share_of
from recondite.mechanisms import NoNoise

__all__ = ["PLAN", "client_app", "defence_of", "ready_client", "server_app"]

PLAN = "plan"
_STREAMS = "recondite.streams"
_UNUSABLE = "this client's policy cannot be used; the reason is in the client's own log"


def defence_of(policy: Policy) -> Any:
    """The mod that a policy describes; None where it pins that there is no defence."""
    if policy.undefended:
        return None
    seed = policy.seed_or_none
    ledger = policy.ledger or None
    limit = policy.budget_epsilon
    budget = Budget(epsilon=limit) if limit > 0 else None
    if policy.described.on_records:
        once = policy.noise == "once"
        return defend(
            channel=channel_for(policy),
            noise=policy.noise,
            ledger=ledger,
            budget=budget,
            seed=None if once else seed,
        )
    if policy.level == "record" and policy.mechanism_name:
        return defend(ledger=ledger, budget=budget, seed=seed)
    mechanism = policy.mechanism()
    if mechanism is None or policy.trusts_server:
        mechanism = NoNoise(clip=True)
    on_grid = policy.secure and (policy.shares_noise or policy.trusts_server)
    return defend(
        mechanism,
        max_norm=policy.max_norm,
        ledger=ledger,
        budget=budget,
        seed=seed,
        honest=policy.honest if on_grid else None,
    )


@dataclass(frozen=True)
class _Client:
    """The functions of the ready client app.

    Attributes:
      policies: Pinned in the app, for simulations. With several, a message says by its number
        which of them its round is of; with none, the node has to pin one.
    """

    policies: tuple[Policy, ...] = ()

    def policy(self, message: Any, context: Any) -> Policy:
        """The policy of one message: the node's, with what the server may ask for."""
        sent = message.content.config_records
        own = self.policies[0] if self.policies else None
        if len(self.policies) > 1:
            number = sent["config"].get(PLAN) if "config" in sent else None
            if not isinstance(number, int) or not 0 <= number < len(self.policies):
                raise StayOutError(f"{PLAN} must be the number of one of the app's policies")
            own = self.policies[number]
        return Policy.pinned(context.node_config, own).under(context.run_config, *sent.values())

    def defended(self, message: Any, context: Any, call_next: Any) -> Any:
        """The mod: the defence of the policy, or one line that says why nothing is done."""
        try:
            policy = self.policy(message, context)
            chosen = defence_of(policy)
        except StayOutError as reason:
            log(logging.WARNING, f"recondite: this client stays out of the round: {reason}")
            return error_reply(message, str(reason))
        except Exception as error:
            # The reason may hold the node's own paths and values: it stays here.
            if not isinstance(error, ValueError):
                logging.getLogger("flwr").error("recondite: %s", traceback.format_exc())
            log(logging.WARNING, f"recondite: this client stays out of the round: {error}")
            return error_reply(message, _UNUSABLE)
        if policy.secure:
            return secured(chosen, policy.honest)(message, context, call_next)
        if chosen is None:
            log(logging.WARNING, "recondite: defence none is pinned: the update leaves as it is")
            return call_next(message, context)
        return chosen(message, context, call_next)

    def train(self, message: Any, context: Any) -> Any:
        """Trains on the client's share; the weights go back undefended: the mod does the rest."""
        app = flower()
        policy = self.policy(message, context)
        model = initial_model(policy)
        place, received = next(iter(message.content.array_records.items()))
        _load(model, received)
        client = int(context.node_config.get("partition-id", 0))
        records = share_of(policy, client)
        # One stream a federation: a simulation may run several, one after the other.
        stream = f"{_STREAMS}.{policy.partition}.{policy.local_steps}.{policy.label}"
        kept = context.state.config_records
        outcome = train_locally(
            model, records, policy, Streams.of(dict(kept[stream]) if stream in kept else {})
        )
        if policy.seed_or_none is not None:
            kept[stream] = app.ConfigRecord(outcome.streams.to_config())
        if policy.truth:
            _leave_truth(policy, message, context, outcome.batches)
        metrics = {"num-examples": len(records), "train-loss": outcome.loss}
        content = app.RecordDict(
            {
                place: app.ArrayRecord(dict(zip(received, _arrays(model), strict=True))),
                "metrics": app.MetricRecord(metrics),
            }
        )
        return app.Message(content, reply_to=message)


def _load(model: Any, record: Any) -> None:
    """Arrays in the order of the model's: Flower's older messages have numbers for names."""
    values = [torch.from_numpy(array.numpy().copy()) for array in record.values()]
    model.load_state_dict(dict(zip(model.state_dict(), values, strict=True)))


def _arrays(model: Any) -> list[Any]:
    app = flower()
    return [app.Array(value.detach().cpu().numpy()) for value in model.state_dict().values()]


def _leave_truth(policy: Policy, message: Any, context: Any, batches: Any) -> None:
    """In a simulation: what this client trained on, for the auditor to score against."""
    folder = Path(policy.truth)
    folder.mkdir(parents=True, exist_ok=True)
    number = server_round(message)
    images = np.concatenate([images.numpy() for images, _ in batches])
    labels = np.concatenate([labels.numpy() for _, labels in batches])
    with replaced(folder / f"{number}-{context.node_id}.npz") as file:
        np.savez(file, images=images, labels=labels, allow_pickle=False)


def ready_client(*policies: Policy) -> Any:
    """The ready client app.

    Args:
      *policies: Pinned in the app, for simulations only, where one person owns both sides. What a
        node pins wins. With several, the server's messages say ``plan``, the number of one.
        Without any, a node that pins no defence does not train.
    """
    client = _Client(policies)
    app = flower("flwr.clientapp").ClientApp(mods=[client.defended])
    app.train()(client.train)
    return app


def _server_app() -> Any:
    app = flower("flwr.serverapp").ServerApp()

    app.main()(_main)
    return app


def _main(grid: Any, context: Any) -> None:
    from recondite.federated.flower.server import federate

    federate(grid, Settings.of_server(context.run_config))


client_app = ready_client()
server_app = _server_app()
