"""How a victim was trained, so that reference models are trained alike: without a defence."""

from __future__ import annotations

from recondite.configuration import TrainingConfig

__all__ = ["PRESETS", "Recipe"]


def Recipe(  # noqa: N802
    epochs: int = 30,
    batch_size: int = 64,
    optimizer: str = "adam",
    learning_rate: float = 1e-3,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> TrainingConfig:
    """The configuration of reference models; arguments as in :class:`TrainingConfig`."""
    return TrainingConfig(
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        momentum=momentum,
        weight_decay=weight_decay,
        clipping="none",
    )


# Faustini et al. (2023), Table 1, the rows marked for MIA-R. The paper does not say how many
# reference models it trained, nor on how many records.
PRESETS = {
    "faustini-lenet-cifar10": Recipe(60, 8, "adam", 0.01),
    "faustini-lenet-fashion-mnist": Recipe(10, 8, "adam", 0.001),
    "faustini-mlp-cifar10": Recipe(25, 256, "adam", 0.001),
    "faustini-mlp-fashion-mnist": Recipe(30, 8, "adam", 0.1),
}
