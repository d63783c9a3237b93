"""NVFlare: a site's filter of results. Updates leave as its policy says and its ledger counts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from recondite.federated.cost import Budget, overspent
from recondite.federated.ledger import Line, ReleaseLedger
from recondite.federated.policy import Policy, StayOutError
from recondite.federated.update import (
    Arrays,
    configured,
    difference,
    dumps,
    loads,
    moved,
    noised_names,
    one_release,
    release,
)
from recondite.mechanisms import NoNoise

try:
    from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
    from nvflare.apis.filter import ContentBlockedException, Filter
    from nvflare.apis.fl_constant import FLContextKey
except ImportError:  # said when a filter is made: this file can be read without it
    Filter = object

__all__ = ["PolicyFilter"]


class PolicyFilter(Filter):  # type: ignore[misc]  # not installed where types are checked
    """Lets the difference of weights leave a site bounded, noised and counted; nothing else.

    Guarantee: that of the policy's mechanism for the whole update, against a server that sees
    every message of this site (:func:`recondite.federated.spent` composes the ledger). The result
    is built anew from the noised arrays: metrics and headers of the app stay at home, and a result
    of another kind is blocked, also one that NVFlare's own DXO filters would pass on. The ledger
    is on disk before the result leaves; the same task's result again gets the same bytes.

    Put it in the site's own privacy policy (``local/privacy.json``), where no job can leave it
    out. Not covered: tasks for which it is not configured, and what an app sends by other means.

    Args:
      policy: What the site decides, as on a Flower node: ``defence``, ``strength``, ``max-norm``,
        ``ledger``, ``budget-epsilon``, … A policy on records or local steps is refused: this
        filter sees whole updates.
    """

    def __init__(self, policy: Mapping[str, Any]) -> None:
        if Filter is object:
            raise ValueError("NVFlare is needed for its filter: pip install 'recondite[nvflare]'")
        super().__init__()
        try:
            self.policy = Policy.pinned(dict(policy))
        except StayOutError as reason:
            raise ValueError(str(reason)) from None
        mechanism = self.policy.mechanism()
        whole = self.policy.level == "client" and not self.policy.described.on_records
        if self.policy.undefended or not whole or self.policy.secure or self.policy.trusts_server:
            raise ValueError("policy must noise or clip whole updates by itself: level client")
        self._mechanism = mechanism or NoNoise(clip=True)

    def process(self, shareable: Any, fl_ctx: Any) -> Any:
        """What leaves instead of a result.

        Raises:
          ContentBlockedException: Nothing leaves: one line that does not depend on the data.
        """
        try:
            found = from_shareable(shareable)
        except Exception:  # whatever it is, it is no update
            raise ContentBlockedException("recondite: only a DXO of weights may leave") from None
        if found.data_kind != DataKind.WEIGHT_DIFF:
            raise ContentBlockedException("recondite: only a WEIGHT_DIFF may leave this site")
        try:
            arrays = self._released(found.data, fl_ctx)
        except StayOutError as reason:
            raise ContentBlockedException(f"recondite: {reason}") from None
        # All sites weigh alike: how many steps or records there were is the site's own.
        meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: 1}
        return DXO(DataKind.WEIGHT_DIFF, dict(arrays), meta).to_shareable()

    def _released(self, data: Mapping[str, Any], fl_ctx: Any) -> Arrays:
        update = {name: np.asarray(value) for name, value in data.items()}
        site, key = str(fl_ctx.get_identity_name()), _key(fl_ctx)
        book = ReleaseLedger(Path(self.policy.ledger) / site)
        names = noised_names(update)
        mechanism = configured(self._mechanism, update, names)
        line: Line = {
            "key": key,
            "run": str(fl_ctx.get_job_id()),
            "node": site,
            "level": "client",
            "simulation": self.policy.seed >= 0,
            "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        line.update(one_release(mechanism))
        nothing = {name: np.zeros_like(array) for name, array in update.items()}
        with book.locked():
            lines = book.lines()
            if any(earlier["key"] == key for earlier in lines):
                stored = book.stored(key)
                if stored is None:
                    raise StayOutError("this task was answered before, and its bytes are gone")
                return loads(stored)
            limit = self.policy.budget_epsilon
            budget = Budget(epsilon=limit) if limit > 0 else None
            spent = overspent(budget, [*lines, line])
            if spent is not None:
                raise StayOutError(spent)
            vector = difference(nothing, update, names)
            noised = release(mechanism, vector, self.policy.max_norm, self._generator(key))
            after = moved(nothing, names, noised)
            book.store(key, dumps(after))
            book.write(line)
        return after

    def _generator(self, key: str) -> Any:
        seed = self.policy.seed_or_none
        return None if seed is None else np.random.default_rng([seed, int(key, 16)])


def _key(fl_ctx: Any) -> str:
    """Names a release: a task of a job has one result, however often it is sent."""
    task = fl_ctx.get_prop(FLContextKey.TASK_ID)
    if not task:
        raise StayOutError("a result without a task cannot be counted")
    text = f"nvflare {fl_ctx.get_job_id()} {task} {fl_ctx.get_identity_name()}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
