"""Rows of a comparison by setting: the seeds of one defence, strength and attack."""

from __future__ import annotations

from recondite_papers.kept_lengths import KeptLengths
from recondite_papers.tables.cells import Row, mean, spread

__all__ = ["Group", "Row", "Rows"]

Rows = list[Row]


class Group:
    """Seeds of one setting under one attack.

    Attributes:
      head: What all rows of the file say.
      rows: One for each seed.
      row: The first of them.
      attack: The attack's name.
      training: How the model was trained.
      asked: What the study asked of the attack.
      options: The attack's own options among it.
    """

    def __init__(self, head: Row, rows: Rows) -> None:
        self.head, self.rows, self.row = head, rows, rows[0]
        self.attack, self.training = self.row["attack"], self.row["training"]
        self.asked = self.row["attack_options"] or {}
        self.options = self.asked.get("options", {})

    @property
    def kind(self) -> str:
        """The defence as the papers' tables call it."""
        name, settings = str(self.row["defence"]), self.row["settings"]
        if name == "personalized-channel" and settings.get("method") == "paper":
            return "personalized-paper"
        if name == KeptLengths.name:
            return "directional"
        return name.removesuffix("-channel")

    def label(self) -> Row:
        """What every row says of its setting."""
        training = self.training
        return {
            **self.head,
            "defence": self.kind,
            "value": self.row["value"] or 0.0,
            "batch": training["batch_size"],
            "steps": training["steps"],
            "epochs": training["epochs"],
            "rate": training["learning_rate"],
            "optimizer": training["optimizer"],
            "clipping": training["clipping"],
            "norm": training["max_grad_norm"],
            "noise": self.row["settings"].get("noise"),
        }

    def utility(self, key: str = "test_accuracy") -> list[float]:
        """A figure of each seed."""
        return [float(row["utility"][key]) for row in self.rows]

    def accuracy(self) -> Row:
        """Accuracies of each seed."""
        return {"accuracy": self.utility(), "train_accuracy": self.utility("train_accuracy")}

    def epsilon(self) -> float | None:
        """What Gaussian noise was calibrated to, if it was."""
        target = self.row["target"]
        return None if target is None else target.get("epsilon")

    def pictures(self) -> Row:
        """Errors and similarities, means over seeds; ``scaled`` is the model's own pixel scale."""
        found = [row["reconstruction"] for row in self.rows]
        scale = mean([value**2 for value in self.row["data"]["std"] or (1.0,)])
        errors = [value for each in found for value in each["mse"]]
        own = {key: mean([float(each[key]) for each in found]) for key in found[0]
               if key.startswith(("mse_", "ssim_")) and found[0][key] is not None}  # fmt: skip
        deviation = spread(errors)
        return {
            "attack": self.attack,
            "victim": found[0]["victim"],
            "images": len(errors),
            "iterations": found[0]["iterations"],
            "interrupted": any(each["interrupted"] for each in found),
            "mse": own["mse_mean"],
            "mse_median": own["mse_median"],
            "mse_scaled": own["mse_mean"] / scale,
            "mse_scaled_median": own["mse_median"] / scale,
            "mse_scaled_placed": own["mse_placed_mean"] / scale,
            "mse_scaled_sd": None if deviation is None else deviation / scale,
            "mse_start": None if "mse_start" not in own else own["mse_start"] / scale,
            "ssim": own["ssim_mean"],
            "ssim_placed": own["ssim_placed_mean"],
        }
