"""Every table and figure of the four studies: what it takes to check it, and how."""

# ruff: noqa: E501  (tables are easier to check in long lines)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from recondite_papers.tables.cells import Cell, Row

__all__ = ["ALIASES", "ITEMS", "Item", "find", "quick_minutes"]

# The papers as they are cited; files of results keep the studies' short names.
ALIASES = {
    "biswas2025": "compare",
    "tan2024": "channel",
    "faustini2023": "dirdp",
    "faustini2022": "dirdp-v1",
}

_JOBS = "recondite_papers.jobs"
_TABLES = "recondite_papers.tables"


@dataclass(frozen=True)
class Item:
    """A table or figure.

    Attributes:
      name: ``study/table-4``.
      title: What it shows.
      compares: What is put beside the paper's.
      table: ``module:function`` below ``tables``; it gets the rows of each job.
      jobs: (module:function below ``jobs``, name of the result, parts of block names) of each job.
      data: Data sets it needs.
      cpu: Rough time of the full version on two cores.
      gpu: Rough time on one GPU of the H200's kind.
      quick: Rough time of the small version on two cores.
      note: What was left out, if anything.
      fixed: Arguments of the table function after the rows.
      figure: ``module:function`` below ``figures``; a figure without one compares the cells.
    """

    name: str
    title: str
    compares: str
    table: str
    jobs: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    data: tuple[str, ...] = ()
    cpu: str = "seconds"
    gpu: str = "–"
    quick: str = "seconds"
    note: str = ""
    fixed: tuple[str, ...] = ()
    figure: str = ""

    @property
    def drawn(self) -> bool:
        """Whether the paper has a figure here."""
        return "/figure-" in self.name

    @property
    def beyond(self) -> bool:
        """Whether it compares with something else than what the paper prints."""
        own = ("/table-", "/figure-", "/dp-baselines", "/eigenvalues", "/embedding")
        return not any(part in self.name for part in own)

    @property
    def study(self) -> str:
        """compare, channel, dirdp or dirdp-v1."""
        return self.name.partition("/")[0]

    def run_jobs(self, context: Any) -> dict[str, list[Row]]:
        """Computes what is missing; rows of each job."""
        out = {}
        for place, result, only in self.jobs:
            module, function = place.split(":")
            job = getattr(import_module(f"{_JOBS}.{module}"), function)
            context.only = () if context.quick else only
            job(context)
            out[result] = context.sink(result).rows
        return out

    def cells(self, rows: dict[str, list[Row]]) -> list[Cell]:
        """The comparison."""
        module, function = self.table.split(":")
        make: Callable[..., list[Cell]] = getattr(import_module(f"{_TABLES}.{module}"), function)
        given = [rows.get(result, []) for _, result, _ in self.jobs]
        return make(*given, *self.fixed)


_MNIST = ("mnist", "fashion-mnist")
_TWO = ("fashion-mnist", "cifar10")
_ALL = ("fashion-mnist", "cifar10", "lfw")
_TRAIN = "compare:accuracy"
_IGA = ("compare_attacks:iga", "compare-iga")
_CHANNEL = ("channel:accuracy", "channel-accuracy", ("lenet",))
_DEFENCE = ("defence:planes", "channel-defence", ())
_SHOWN = ("gallery:reconstructions", "dirdp-v1-pictures")
_EARLY = ("dirdp_attacks:early", "dirdp-v1-attacks")

_ITEMS = (
    Item("compare/table-1", "ε of κ", "ε as printed (N = 3) and of the run (1,407 steps)", "accounting:table_1", cpu="10 s"),
    Item("compare/table-2", "reconstruction for selected noises", "SSIM and MSE of Inverting Gradients", "compare:table_2", ((*_IGA, ("iga-128",)),), _MNIST, "10 h", "2 min", "20 s"),
    Item("compare/table-3", "reconstruction by DLG", "SSIM and MSE of DLG", "compare:table_3", (("compare_attacks:dlg", "compare-dlg", ("dlg",)),), _MNIST, "20 min", "1 min", "10 s"),
    Item("compare/table-4", "pairs of κ and σ", "ε of each, printed and right", "accounting:table_4", cpu="20 s"),
    Item("compare/table-5", "accuracy by batch size", "accuracy of 128 cells", "compare:table_5", ((_TRAIN, "compare-accuracy", ("main", "batch")),), _MNIST, "10 h", "3 min", "3 min"),
    Item("compare/table-6", "reconstruction by batch size", "SSIM and MSE of 128 cells", "compare:table_6", ((*_IGA, ("iga",)),), _MNIST, "30 h", "4 min", "20 s"),
    Item("compare/figure-1", "reconstruction against ε", "as Table VI at batch 128, all κ and σ", "compare:table_6", ((*_IGA, ("iga-128",)),), _MNIST, "10 h", "2 min", "20 s", figure="series:compare_error"),
    Item("compare/figure-2", "accuracy against ε", "accuracy of every κ and σ", "compare:figure_2", ((_TRAIN, "compare-accuracy", ("main",)),), _MNIST, "3 h", "1 min", "3 min", figure="series:compare_accuracy"),
    Item("compare/figure-3", "images rebuilt by Inverting Gradients", "images", "compare:table_2", ((*_IGA, ("iga-128",)),), _MNIST, "10 h", "2 min", "20 s", figure="series:compare_iga"),
    Item("compare/figure-4", "MSE against Bayes' capacity", "MSE of every κ and σ", "compare:table_6", ((*_IGA, ("iga-128",)),), _MNIST, "10 h", "2 min", "20 s", figure="series:compare_capacity"),
    Item("compare/figure-5", "ε against Bayes' capacity", "log capacities, printed and of the leak", "accounting:capacity_figure", cpu="1 s"),
    Item("compare/figure-6", "images rebuilt by DLG", "images", "compare:table_3", (("compare_attacks:dlg", "compare-dlg", ("dlg",)),), _MNIST, "20 min", "1 min", "10 s", figure="series:compare_dlg"),
    Item("compare/best-order", "the equation for the best order α*", "ε of one release at α*, searched and tight; order of the run", "accounting:best_order", cpu="20 s"),
    Item("compare/equal-notions", "pairs of truly equal ε and capacity", "κ for each σ", "accounting:equal_notions", cpu="10 s", note="beyond the paper"),
    Item("compare/signal", "signal over noise from the first step to the last", "of what leaks, and accuracies there", "reasons:signal", (("compare_signal:signal", "compare-signal", ()),), _MNIST, "2 min", "1 min", "10 s", "beyond the paper: why equal accuracy is not equal protection"),
    Item("compare/noise-size", "why Table VI's Gaussian errors differ", "MSE with the noise divided once more, MNIST", "reasons:noise_size", (("reasons:noise_size", "compare-noise-size", ()),), ("mnist",), "30 min", "1 min", "5 s", "beyond the paper: one reason tested"),
    Item("compare/intruder", "Tables II, III and VI under the strongest attacks known", "gain over the blind guess, games", "intruder:table", (("intruder:biswas2025", "intruder", ("compare/",)),), _MNIST, "1 h", "2 min", "15 s", "beyond the paper: attackers who know the defence", ("compare",)),
    Item("channel/table-2", "time of training", "times over plain training, four networks", "channel:times", (("networks:times", "channel-times", ()),), ("cifar10",), "3 min", "1 min", "10 s", "stacked on a CPU: batches of 64, 16, 8 and 4, since a batch of 64 of VGG16 needs 34 GB"),
    Item("channel/equation-17", "noise on data as noise through the Jacobian", "share of a gradient's change that the first order leaves", "taylor:first_order", (("taylor:first_order", "channel-taylor", ()),), ("digits",), "20 s", "1 min", "5 s", "digits: the paper measures nothing here"),
    Item("channel/figure-3", "capacity by λ and σ", "closed form", "accounting:tan_toy", cpu="1 s", figure="series:capacity_by_noise"),
    Item("channel/figure-4", "toy: noise for one nat", "variances", "accounting:tan_toy", cpu="1 s"),
    Item("channel/figure-5", "faces through the channels", "error and SSIM of noisy faces", "channel:faces", (("gallery:faces", "channel-pictures", ()),), ("lfw",), "2 min", "1 min", "10 s", "LFW in place of CelebA, whose files are not here", figure="series:noisy_faces"),
    Item("channel/figure-6", "batch size under DP and constant noise", "MSE by batch size", "channel:tan_guidelines", (("channel_attacks:guidelines", "channel-guidelines", ("batch",)),), ("cifar10",), "2 h", "1 min", "20 s", figure="series:batches"),
    Item("channel/figure-7", "compression as noise", "noise that loses as many nats", "channel:compression", cpu="1 s"),
    Item("channel/figure-8", "compression of one eigenvector", "MSE by eigenvalue; eigenvalues", "channel:tan_guidelines", (("channel_attacks:guidelines", "channel-guidelines", ("compression",)),), ("cifar10",), "2 h", "1 min", "20 s", figure="series:eigenvalues"),
    Item("channel/figure-9", "accuracy by κ", "accuracy of LeNet, all channels", "channel:tan_accuracy", (_CHANNEL,), _TWO, "2 days", "4 min", "30 s", "LeNet on two data sets; printed values cannot be read", figure="series:accuracy_by_capacity"),
    Item("channel/figure-9-networks", "accuracy by κ, other networks", "accuracy of ResNet10, AlexNet and VGG16", "channel:networks", (("networks:accuracy", "channel-networks", ()),), _TWO, "weeks", "30 min", "10 s", figure="series:accuracy_by_capacity"),
    Item("channel/figure-10", "reconstruction by κ", "MSE of model and gradient inversion, LeNet", "channel:by_capacity", (_DEFENCE, ("channel_attacks:figure_14", "channel-inversion", ("lenet",))), _TWO, "1 day", "15 min", "15 s", "ordering: the figure has no numbers", figure="series:error_by_capacity"),
    Item("channel/figure-11", "accuracy against MSE", "as Figures 9 and 14", "channel:tan_accuracy", (_CHANNEL,), _TWO, "2 days", "4 min", "30 s"),
    Item("channel/figure-12", "accuracy by n", "accuracy of LeNet at κ = 300", "channel:tan_rounds", (_CHANNEL,), _TWO, "2 days", "4 min", "30 s", figure="series:accuracy_by_rounds"),
    Item("channel/figure-13", "reconstruction by n", "MSE of model inversion at κ = 300", "channel:by_rounds", (_DEFENCE,), _TWO, "1 day", "6 min", "10 s", "ordering: the figure has no numbers", figure="series:error_by_rounds"),
    Item("channel/figure-14", "gradient inversion by channel", "MSE, LeNet on CIFAR-10", "channel:tan_inversion", (("channel_attacks:figure_14", "channel-inversion", ("lenet",)),), ("cifar10",), "10 h", "7 min", "20 s", "LeNet only", figure="series:error_by_capacity"),
    Item("channel/figure-14-networks", "gradient inversion, other networks", "MSE on ResNet10, AlexNet and VGG16", "channel:networks_inversion", (("networks:inversion", "channel-networks-inversion", ()),), ("cifar10",), "weeks", "40 min", "10 s", figure="series:error_by_capacity"),
    Item("channel/figure-15", "accuracy against defence", "accuracy and GDC by channel, with DP-SGD and DP-PSAC", "channel:planes", (_DEFENCE,), _TWO, "1 day", "6 min", "10 s", figure="series:accuracy_plane"),
    Item("channel/figure-16", "membership against reconstruction", "IMP_MIA and IMP_DRA by channel", "channel:planes", (_DEFENCE,), _TWO, "1 day", "6 min", "10 s", "IMP_DRA by model inversion: the paper does not say which", figure="series:improvement_plane"),
    Item("channel/figure-17", "the weights β", "the printed matrix", "channel:beta_weights", cpu="1 s", figure="series:weights"),
    Item("channel/embedding", "the same theory for embeddings", "nats, accuracy and best linear guess", "channel:embedding", (("embedding:guideline", "channel-embedding", ()),), _TWO, "30 min", "2 min", "10 s"),
    Item("channel/dp-baselines", "ε and capacity of the DP baselines", "ε, nats", "accounting:tan_dp", cpu="5 s"),
    Item("channel/eigenvalues", "largest eigenvalues", "λ_0, λ_1, λ_10", "channel:tan_eigenvalues", (_CHANNEL,), _TWO, "1 min", "4 min", "30 s"),
    Item("channel/intruder", "Figures 10, 14 and 15 under the strongest attacks known", "gain over the blind guess, games", "intruder:table", (("intruder:tan2024", "intruder", ("channel/",)),), _TWO, "1 h", "2 min", "10 s", "beyond the paper: attackers who know the defence", ("channel",)),
    Item("dirdp/table-2", "accuracy", "accuracy of Gaussian, VMF and undefended cells", "dirdp:dirdp_accuracy", (("dirdp:accuracy", "dirdp-accuracy", ()), ("dirdp:with_usual_weights", "dirdp-usual", ())), _ALL, "4 days", "30 min", "30 s", "CIFAR-100 was not run: its files are not here"),
    Item("dirdp/table-3", "membership by reference models", "AUC of MIA-R", "dirdp:membership", (("membership:table_3", "dirdp-membership", ()),), _TWO, "1 week", "30 min", "15 s", "halves, references and δ are assumed"),
    Item("dirdp/figure-2", "utility against privacy", "share of Gaussian points that VMF beats", "dirdp:trade_off", (("dirdp:accuracy", "dirdp-accuracy", ()), ("membership:table_3", "dirdp-membership", ()), ("dirdp_attacks:table_4", "dirdp-iga", ())), _ALL, "2 weeks", "1 h", "60 s", figure="series:directional_trade_off"),
    Item("dirdp/reasons", "which network gives Table 2", "activation, pooling, widths, pixels, optimizer, initial weights", "reasons:readings", (("dirdp_variants:sweep", "dirdp-variants", ()),), _ALL, "2 days", "20 min", "10 s", "beyond the paper: reasons tested"),
    Item("dirdp/norms", "which clipping norm gives Table 2", "Gaussian cells by norm, three ε", "reasons:norms", (("dirdp_variants:norms", "dirdp-norms", ()),), _ALL, "2 days", "8 min", "10 s", "beyond the paper: reasons tested"),
    Item("dirdp/again", "Table 2's cells that are off, once more", "another seed, other widths, faces moved", "reasons:again", (("dirdp_variants:again", "dirdp-again", ()), ("dirdp_variants:moved", "dirdp-moved", ())), ("cifar10", "lfw"), "2 h", "5 min", "10 s", "beyond the paper: reasons tested"),
    Item("dirdp/table-5", "differences of attack success", "recomputed from the printed Tables 3 and 4", "timing:dirdp_differences", cpu="1 s"),
    Item("dirdp/table-4", "reconstruction by Inverting Gradients", "median MSE", "dirdp:dirdp_images", (("dirdp_attacks:table_4", "dirdp-iga", ()), ("dirdp_attacks:relu", "dirdp-iga-relu", ())), _ALL, "2 days", "25 min", "30 s"),
    Item("dirdp/puzzle", "which partition gives Table 2", "accuracy by partition and κ", "dirdp:dirdp_puzzle", (("dirdp:puzzle", "dirdp-puzzle", ()),), _TWO, "3 days", "5 min", "30 s", "5 of the 30 epochs on Fashion-MNIST, 30 of the 90 on CIFAR-10"),
    Item("dirdp/intruder", "Table 4 under the strongest attacks known", "gain over the blind guess, games", "intruder:table", (("intruder:faustini2023", "intruder", ("dirdp/",)),), _ALL, "4 h", "5 min", "20 s", "beyond the paper: attackers who know the defence", ("dirdp",)),
    Item("dirdp/decided", "MIA-R on every partition, victims that learnt something", "AUC", "dirdp_decided:cells", (("membership:decided", "dirdp-decided", ()),), ("fashion-mnist",), "1 day", "10 min", "5 s", "beyond the paper: what Table 3 leaves open"),
    Item("dirdp-v1/table-1", "accuracy", "accuracy on MNIST and CIFAR-10", "dirdp_v1:v1_accuracy", (("dirdp_v1:accuracy", "dirdp-v1-accuracy", ("mnist", "cifar10")), ("dirdp_v1:with_usual_weights", "dirdp-v1-usual", ("mnist", "cifar10"))), ("mnist", "cifar10", "lfw"), "4 days", "40 min", "10 s", "CIFAR-100 was not run: its files are not here; two partitions of VMF noise"),
    Item("dirdp-v1/table-2", "accuracy on faces", "Top-1, Top-5 and Top-10 on LFW", "dirdp_v1:v1_faces", (("dirdp_v1:accuracy", "dirdp-v1-accuracy", ("lfw",)), ("dirdp_v1:with_usual_weights", "dirdp-v1-usual", ("lfw",))), ("mnist", "lfw"), "3 h", "3 min", "10 s", "two partitions of VMF noise"),
    Item("dirdp-v1/table-3", "reconstruction by DLG", "SSIM, median MSE", "dirdp_v1:v1_attacks", ((*_EARLY, ("dlg",)),), ("mnist", "cifar10", "lfw"), "2 days", "4 h", "20 s", "CIFAR-10 labels", ("dlg",)),
    Item("dirdp-v1/table-4", "reconstruction by Inverting Gradients", "SSIM, median MSE", "dirdp_v1:v1_attacks", ((*_EARLY, ("iga",)),), ("mnist", "cifar10", "lfw"), "1 day", "30 min", "20 s", "CIFAR-10 labels", ("iga",)),
    Item("dirdp-v1/table-6", "trained and untrained victims", "SSIM, median MSE", "dirdp_v1:v1_trained", ((*_EARLY, ()),), ("mnist", "cifar10", "lfw"), "2 days", "4 h", "20 s", "trained for five epochs"),
    Item("dirdp-v1/intruder", "Tables 3 and 4 under the strongest attacks known", "gain over the blind guess, games", "intruder:table", (("intruder:faustini2022", "intruder", ("dirdp-v1/",)),), ("mnist", "cifar10", "lfw"), "4 h", "5 min", "20 s", "beyond the paper: attackers who know the defence", ("dirdp-v1",)),
    Item("dirdp-v1/figure-4", "images rebuilt by DLG", "images, SSIM", "dirdp_v1:pictures", ((*_SHOWN, ("dlg",)),), ("mnist", "cifar10", "lfw"), "2 h", "8 min", "10 s", "CIFAR-10 for CIFAR-100", ("dlg",), "series:early_dlg"),
    Item("dirdp-v1/figure-5", "images rebuilt by Inverting Gradients", "images, SSIM", "dirdp_v1:pictures", ((*_SHOWN, ("iga",)),), ("mnist", "cifar10", "lfw"), "2 h", "3 min", "10 s", "CIFAR-10 for CIFAR-100", ("iga",), "series:early_iga"),
    Item("dirdp-v1/figure-6", "images rebuilt from trained victims", "images, SSIM", "dirdp_v1:pictures", ((*_SHOWN, ()),), ("mnist", "cifar10", "lfw"), "4 h", "10 min", "10 s", "CIFAR-10 for CIFAR-100", ("both", "both"), "series:early_trained"),
    Item("frontier", "accuracy at equal reconstruction risk", "accuracy, ε, bounds and measured risk of every defence", "frontier:cells", (("frontier:measured", "frontier", ()), ("frontier_accounts:accounts", "frontier-accounts", ())), _TWO, "days", "20 min", "50 s", "a study of our own: nothing is printed to compare with"),
)  # fmt: skip
ITEMS = {item.name: item for item in _ITEMS}


def quick_minutes() -> float:
    """Estimate of the whole quick set in one folder, where items share the rows of a job.

    Items that run the same jobs count once, as the longest of them; one that only joins jobs which
    others run already adds nothing.
    """
    longest: dict[frozenset[str], float] = {}
    for item in ITEMS.values():
        amount, _, unit = item.quick.partition(" ")
        seconds = float(amount) * (60 if unit == "min" else 1) if unit else 3.0
        key = frozenset(place for place, _, _ in item.jobs) or frozenset([item.name])
        longest[key] = max(longest.get(key, 0.0), seconds)
    for key in sorted(longest, key=len, reverse=True):
        others = frozenset[str]().union(*(other for other in longest if other != key))
        if key <= others:
            del longest[key]
    return sum(longest.values()) / 60


def find(name: str) -> Item:
    """An item by its name, or by the paper's authors and year: ``biswas2025/table-4``.

    Raises:
      ValueError: In one line, with the nearest names.
    """
    study, slash, rest = name.partition("/")
    name = f"{ALIASES.get(study, study)}{slash}{rest}"
    if name not in ITEMS:
        import difflib

        near = difflib.get_close_matches(name, ITEMS, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "see recondite reproduce --list"
        raise ValueError(f"there is no reproduction {name!r}: {hint}")
    return ITEMS[name]
