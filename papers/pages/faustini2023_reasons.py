"""What was tried for cells of Faustini et al. (2023) that are off, in words."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any

from parts import NOT_RUN, by, rows, within
from recondite_papers.printed import dirdp
from recondite_papers.tables import dirdp_v1 as dirdp_v1_cells
from recondite_papers.tables.cells import mean

_CHOSEN_MLP = "mlp2/tanh/50-15/half/as-is/dlg"


def readings_text(
    plain: list[Any],
    before: list[Any],
    cells: list[Any],
    images: list[Any],
    relu: list[Any],
    sweep: list[Any],
    moved: list[Any],
    again: list[Any],
) -> str:
    """What the paper does not print, how it is read, and what speaks for that."""
    unseen = [
        [c for c in part if c.name.startswith(("lenet, fashion-mnist", "lenet, lfw"))]
        for part in (plain, before)
    ]
    off = "; ".join(f"{c.name} {c.ours:.1f} ({c.paper:.1f})" for c in plain if _far(c))
    return (
        "The paper says neither which activation and widths its networks have, nor how their weights are drawn, nor to what gradients were clipped (here: to 1). "
        "What was tested stands at the end of this page:\n\n"
        '- **LeNet "the original"**: tanh and average pooling. '
        f"With ReLU and max pooling the undefended CIFAR-10 cell is {_relu_gap(sweep)} points too good.\n"
        "- **MLP**: tanh, 50 and 15 hidden units, the widths of the same authors' paper of 2025.\n"
        "- **Initial weights**: uniform in ±0.5, biases too, as the program of DLG's authors draws them; the first version of this paper runs their attack. From torch's own, CIFAR-10 under Gaussian noise "
        f"comes out {_gaussian_gaps(before)} points too well. They were picked on CIFAR-10 and the MLP's cells of Fashion-MNIST. What was not used to pick them, and speaks for them: "
        f"LeNet on Fashion-MNIST and LFW, {within(unseen[0])} cells within 3 points ({within(unseen[1])} from torch's own); the VMF cells of the puzzle below, {vmf_near(cells)}; and "
        f"{_images_text(images, relu)} "
        f"Against them, or silent: the [first version](dirdp-v1.md)'s 70 cells, {_first_version()}; {_chance(plain)} of the 42 cells are at chance (Top-10 of 106 people), where any interpretation fits.\n"
        f"- **Another way to the MLP's Gaussian cells on CIFAR-10** is a clipping norm of 40 with torch's own initial weights (a table at the end has it). It gives neither LeNet's ({_norm_gaps('lenet', 'cifar10', (3.0, 50.0))} points too good at ε = 3 and 50) nor the MLP's on Fashion-MNIST ({_norm_gaps('mlp2', 'fashion-mnist', (0.8, 3.0, 50.0))} points too low).\n"
        f"- **Adam on LFW**: Table 1 prints a momentum of 0.9 beside it for the MLP, which Adam does not have. By Adam the MLPs tried from torch's own initial weights reach {_range(sweep, 'adam')} %, by SGD {_range(sweep, 'sgd')} (printed {dirdp.TABLE_2['mlp2', 'none', 0.0, 'lfw']}).\n"
        f"- **Still off** by more than 3 points, ours (printed): {off or 'none'}. {_why_off(before, again)}{_again_text(again)}{_elsewhere_text(sweep)}{_moved_text(moved)}"
    )


def _relu_gap(sweep: list[Any]) -> str:
    """How much too good LeNet with ReLU and max pooling is on CIFAR-10, undefended."""
    ours = by(
        sweep, "accuracy", network="lenet/relu/max/half/as-is", data="cifar10", defence="none"
    )
    known = dirdp.TABLE_2["lenet", "none", 0.0, "cifar10"]
    return NOT_RUN if ours is None else f"{ours - known:.0f}"


def _gaussian_gaps(before: list[Any]) -> str:
    """Smallest and largest excess of CIFAR-10's Gaussian cells from torch's own initial weights."""
    found = [
        c.difference for c in before if "cifar10, gaussian" in c.name and c.difference is not None
    ]
    return f"{min(found):.0f} to {max(found):.0f}" if found else NOT_RUN


def _norm_gaps(model: str, data: str, epsilons: tuple[float, ...]) -> str:
    """How far a clipping norm of 40 is from the printed Gaussian cells."""
    gaps = []
    for epsilon in epsilons:
        ours = by(
            rows("dirdp-norms"), "accuracy", model=model, data=data, epsilon=epsilon, norm=40.0
        )
        if ours is not None:
            gaps.append(abs(ours - dirdp.TABLE_2[model, "gaussian", epsilon, data]))
    return f"{min(gaps):.0f} to {max(gaps):.0f}" if gaps else NOT_RUN


def _lenet_on_faces() -> str:
    cells = (("none", 0.0), ("gaussian", 8.0), ("gaussian", 50.0))
    known = [dirdp.TABLE_2["lenet", kind, value, "lfw"] for kind, value in cells]
    return "{}, {} and {}".format(*known)


def _first_version() -> str:
    parts = []
    for job in ("dirdp-v1-accuracy", "dirdp-v1-usual"):
        found = rows(job)
        cells = dirdp_v1_cells.v1_accuracy(found) + dirdp_v1_cells.v1_faces(found)
        parts.append(within([c for c in cells if "vmf" not in c.name]).partition(" of ")[0])
    return f"{parts[0]} within 3 points, {parts[1]} from torch's own"


def _chance(plain: list[Any]) -> int:
    """Cells of LFW that are printed at chance, a Top-10 of 9.4 % or so."""
    return sum("lfw" in c.name and c.paper <= 10.7 for c in plain)


def _far(cell: Any) -> bool:
    return cell.ours is not None and abs(cell.difference) > 3


def _images_text(images: list[Any], relu: list[Any]) -> str:
    """Undefended errors of Table 4, which no noise touches."""
    said, nearer, count = [], 0, 0
    for (model, defence, _, data), known in dirdp.TABLE_4.items():
        where = {"model": model, "data": data, "defence": "none"}
        mine, other = (by(part, "mse_scaled_median", **where) for part in (images, relu))
        if defence == "none" and mine is not None and other is not None:
            count += 1
            nearer += abs(mine - known) < abs(other - known)
            said.append(f"{model} on {data} {mine:.2f} ({known:g}; {other:.2g})")
    if not said:
        return f"Table 4: {NOT_RUN}."
    return (
        f"Table 4's undefended errors, nearer in {nearer} of {count} cells than with ReLU and torch's own initial weights (two changes at once), from which the MLP's images come out exactly; "
        f"ours (printed; ReLU): {', '.join(said)}."
    )


def _why_off(before: list[Any], again: list[Any]) -> str:
    """The reason of each cell that is off, from what was tested."""
    cell = next((c for c in before if c.name == "mlp2, cifar10, none" and c.ours), None)
    seeds = by(again, "accuracy", model="mlp2", data="lfw", network=_CHOSEN_MLP)
    if cell is None or seeds is None:
        return ""
    return (
        f"Reasons, each tested: initial weights for the MLP on CIFAR-10 without defence ({cell.ours:.1f} from torch's own); seeds for the MLP on LFW ({seeds:.1f} from another) and for LeNet on CIFAR-10; "
        "how faces are aligned, and seeds, for LeNet on LFW. "
    )


def _again_text(again: list[Any]) -> str:
    """Cells that are off, trained once more."""
    said = []
    for r in again:
        at = f"at ε = {r['epsilon']:g}" if r["epsilon"] else "undefended"
        widths = f" with {r['network'].split('/')[2]} units" if r["model"] == "mlp2" else ""
        said.append(f"{r['model']} on {r['data']} {at}{widths} {100 * mean(r['accuracy']):.1f}")
    return f"Tested with another seed and other widths: {', '.join(said)}. " if said else ""


def _elsewhere_text(sweep: list[Any]) -> str:
    """LeNet on CIFAR-10 trained by the engine itself, so with other random numbers."""
    name = "lenet/tanh/average/half/as-is/dlg"
    found = [
        f"{100 * mean(r['accuracy']):.1f} at ε = {r['epsilon']:g}"
        for r in sweep
        if (r["network"], r["data"], r["defence"]) == (name, "cifar10", "gaussian")
    ]
    return f"LeNet on CIFAR-10 with other random numbers: {', '.join(found)}. " if found else ""


def _moved_text(moved: list[Any]) -> str:
    at = {(r["moved"], r["epsilon"]): 100 * mean(r["accuracy"]) for r in moved}
    found = [
        f"{at[pixels, None]:.0f}, {at[pixels, 8.0]:.0f} and {at[pixels, 50.0]:.0f} % with faces moved by up to {pixels} of 32 pixels and scaled by up to {pixels * 5} %"
        for pixels in (2, 4, 6)
        if (pixels, 50.0) in at
    ]
    if not found:
        return ""
    return (
        "LeNet on LFW: our images are aligned (deep-funneled); the paper does not say whether its were. Tested, without defence and at ε = 8 and 50: "
        f"{'; '.join(found)} (printed {_lenet_on_faces()}), where aligned faces have {at[0, None]:.0f}, {at[0, 8.0]:.0f} and {at[0, 50.0]:.0f}."
    )


def _range(sweep: list[Any], optimizer: str) -> str:
    """Lowest and highest undefended accuracy of the MLPs tried on LFW."""
    found = [
        100 * mean(r["accuracy"])
        for r in sweep
        if (r["model"], r["data"], r["defence"]) == ("mlp2", "lfw", "none")
        and r["optimizer"] == optimizer
    ]
    return f"{min(found):.0f} to {max(found):.0f}" if found else NOT_RUN


def vmf_near(cells: list[Any]) -> str:
    """How many cells of VMF noise are near the printed ones."""
    return within([c for c in cells if "vmf" in c.name]).partition(" (")[0]
