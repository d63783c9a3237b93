"""recondite layers: what private training makes of every layer of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from recondite.cli.output import print_json, print_table

__all__ = ["register"]

_HELP = """Each layer of a model, its per-sample gradient rule (fast, slow, refused) and the cost.

The exit code is 0 whatever the rules say: this only looks.

`recondite layers resnet10 --norm batch`

`recondite layers hf:DIR --adapter lora:8`

`recondite layers my_package.nets:make --shape 3,224,224 --classes 7`
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("layers", help=_HELP)(layers)


def layers(
    model: Annotated[str, typer.Argument(help="Network, hf:DIR or package.module:function.")],
    shape: Annotated[
        str | None, typer.Option("--shape", help="Of one record (3,32,32; 8 tokens of hf:DIR).")
    ] = None,
    classes: Annotated[int, typer.Option("--classes", help="How many.", min=2)] = 10,
    norm: Annotated[str, typer.Option("--norm", help="group, batch or none.")] = "group",
    adapter: Annotated[
        str | None, typer.Option("--adapter", help="lora:RANK, of hf:DIR.", show_default=False)
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Of a pass.", min=1)] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Lists layers."""
    import torch

    from recondite.gradients.layers.listing import list_layers
    from recondite.models import resolve
    from recondite.models.pretrained import is_folder

    if shape is None:
        shape = "8" if is_folder(model) else "3,32,32"
    try:
        sides = [int(side) for side in shape.split(",")]
    except ValueError:
        raise ValueError(
            f"--shape must be numbers with commas, such as 3,32,32, got {shape!r}"
        ) from None
    network = resolve(model, sides, classes, norm=norm, adapter=adapter, seed=0)
    kind = torch.long if is_folder(model) else torch.float32
    found = list_layers(network, torch.zeros(1, *sides, dtype=kind), batch_size)
    if as_json:
        print_json({"schema_version": 1, "model": model, "layers": [x.to_dict() for x in found]})
        return
    rows = [[x.name, x.kind, f"{x.parameters:,}", x.rule, x.norms, x.cost] for x in found]
    count = {rule: sum(x.rule == rule for x in found) for rule in ("fast", "slow", "refused")}
    title = f"Layers of {model}: " + ", ".join(f"{n} {rule}" for rule, n in count.items() if n)
    print_table(title, ["layer", "kind", "parameters", "rule", "norms", "cost"], rows, numbers=(2,))
