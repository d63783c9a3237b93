"""A run as the comparison writes it: real digits, plausible numbers, no training."""

import json
from functools import lru_cache

import numpy as np

STRENGTHS = {
    "none": [None],
    "clip": [None],
    "gaussian": [0.5, 1.0, 2.0, 4.0],
    "vmf": [20.0, 100.0, 500.0, 2500.0],
    "directional": [100.0, 1000.0],
    "natural-channel": [10.0, 40.0, 160.0],
}
PARAMETERS = {
    "gaussian": ("noise_multiplier", "Gaussian σ"),
    "vmf": ("kappa", "VMF κ"),
    "directional": ("kappa", "Directional κ"),
    "natural-channel": ("capacity", "Natural channel κ"),
}


@lru_cache
def digits():
    """Real 8×8 digits, enlarged to 16×16, as uint8 (n, h, w, 1)."""
    from sklearn.datasets import load_digits

    images = load_digits().images[:40] / 16
    large = np.kron(images, np.ones((2, 2)))
    return (255 * large).astype(np.uint8)[..., None]


def leak(defence, value):
    """How much gets through, 0 to 1: what ties accuracy, attacks and bounds together."""
    if defence == "none":
        return 1.0
    if defence == "clip":
        return 0.96
    if defence == "gaussian":
        return float(1 / (1 + value**1.6))
    scale = {"vmf": 800.0, "directional": 1500.0, "natural-channel": 120.0}[defence]
    return float(value / (value + scale))


def notions(defence, value, through):
    if defence in ("none", "clip"):
        return {
            "epsilon": "inf", "epsilon_rdp": "inf", "delta": 1e-4,
            "log_bayes_capacity_release": "inf", "log_bayes_capacity_run": "inf",
            "mutual_information_release": "inf", "mutual_information_run": "inf",
            "rero_prior": 0.1, "rero_bound": 1.0, "metric_privacy": None,
            "subject": "a record", "reasons": {},
        }  # fmt: skip
    channel = defence.endswith("channel")
    epsilon = None if channel else 0.4 * np.exp(6 * through)
    capacity = None if channel else 900 * through
    information = 20 * through + (2 if channel else 5 * through)
    why = "noise on records has no finite ε"
    return {
        "epsilon": epsilon,
        "epsilon_rdp": None if channel else 1.15 * epsilon,
        "delta": 1e-4,
        "log_bayes_capacity_release": capacity,
        "log_bayes_capacity_run": None if channel else 300 * capacity,
        "mutual_information_release": information,
        "mutual_information_run": 300 * information,
        "rero_prior": 0.1,
        "rero_bound": None if channel else min(1.0, 0.1 * np.exp(3 * through)),
        "metric_privacy": None,
        "subject": "a record",
        "reasons": {"epsilon": why, "epsilon_rdp": why, "log_bayes_capacity": why, "rero": why}
        if channel
        else {},
    }


def rebuilt(through, noise, count):
    originals = digits()[:count].astype(float)
    blurred = through * originals + (1 - through) * noise.uniform(0, 255, originals.shape)
    return np.clip(blurred, 0, 255).astype(np.uint8)


def reconstruction(key, through, noise, count, gallery):
    ssim = np.clip(through**1.3 + noise.normal(0, 0.05, count), -0.1, 0.99)
    mse = np.clip(0.16 * (1 - through) ** 1.5 + noise.uniform(0.001, 0.01, count), 1e-5, None)
    psnr = -10 * np.log10(mse)
    return {
        "images": count, "mse": mse.tolist(), "psnr": psnr.tolist(), "ssim": ssim.tolist(),
        "matching_loss": (0.1 * (1 - through) + mse).tolist(), "labels_right": 1.0,
        "mse_median": float(np.median(mse)), "mse_mean": float(mse.mean()),
        "ssim_mean": float(ssim.mean()), "ssim_worst": float(ssim.max()),
        "mse_worst": float(mse.min()), "psnr_mean": float(psnr.mean()),
        "scale": "pixels in [0, 1]", "gallery": f"gallery/{key}.npz" if gallery else None,
        "iterations": 300, "restarts": 1, "batch_size": 1, "victim": "untrained",
    }  # fmt: skip


def membership(through, noise):
    auc = float(0.5 + 0.2 * through**2 + noise.normal(0, 0.004))
    return {
        "auc": auc, "auc_low": auc - 0.015, "auc_high": auc + 0.015, "tpr_at_0.001": 0.002,
        "tpr_at_0.01": 0.015, "epsilon_lower": 0.3 * through, "epsilon_lower_delta": 1e-4,
        "epsilon_lower_confidence": 0.95, "members": 1000, "nonmembers": 1000,
        "roc": [[0, 0], [0.5, 0.6], [1, 1]],
    }  # fmt: skip


def row(defence, value, seed, attack, key, noise, *, study="demo", public=True, images=8):
    through = leak(defence, value)
    parameter, name = PARAMETERS.get(
        defence, (None, {"none": "Undefended"}.get(defence, "Clipping only"))
    )
    label = name if value is None else f"{name} = {value:g}"
    bounds = notions(defence, value, through)
    attacked = membership(through, noise) if attack.startswith("membership") else None
    rebuilding = None
    if not attacked and attack != "none":
        rebuilding = reconstruction(key, through, noise, images, True)
    claims = []
    if attacked and bounds["epsilon"] is not None:
        claims = [
            {
                "notion": "epsilon", "claim": bounds["epsilon"], "delta": 1e-4, "confidence": 0.95,
                "lower": attacked["epsilon_lower"], "how": "membership attack", "violated": False,
            }
        ]  # fmt: skip
    return {
        "schema_version": 1, "kind": "comparison", "key": key, "study": study, "status": "done",
        "reason": None, "defence": defence, "label": label, "parameter": parameter, "value": value,
        "target": None, "seed": seed, "attack": attack,
        "data": {"name": "mnist-5k", "records": 4000, "test_records": 1000, "shape": [1, 16, 16],
                 "classes": 10, "preparation": "crop 16", "pixel_scale": 1.0, "public": public},
        "model": {"name": "mlp", "parameters": 13706},
        "training": {"epochs": 10, "steps": 310, "batch_size": 128, "optimizer": "sgd",
                     "learning_rate": 0.5, "seconds": 2.1},
        "utility": {"test_accuracy": float(0.2 + 0.74 * through**0.12 + noise.normal(0, 0.004)),
                    "train_accuracy": 0.95, "test_loss": 0.3, "train_loss": 0.2},
        "privacy": {"neighbouring": "add-or-remove-one",
                    "assumptions": ["every batch was drawn by independent coin flips"]},
        "notions": bounds,
        "reconstruction": rebuilding,
        "membership": attacked, "claims": claims,
        "seconds": {"train": 2.1, "attack": 3.2, "account": 0.1}, "machine": {"cores": 2},
        "created": "2025-06-01T10:00:00+00:00", "simulation": True, "notes": [],
    }  # fmt: skip


def plain(value):
    """NumPy scalars as Python's."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def write(folder, rows, study=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "records.jsonl").write_text("".join(json.dumps(plain(r)) + "\n" for r in rows))
    study = study or {
        "study": {"name": "demo", "seeds": [0, 1, 2]},
        "versions": {"recondite": "0.3"},
        "machine": {"cores": 2, "system": "Linux"},
    }
    (folder / "study.json").write_text(json.dumps(study))
    return folder


def pictures(folder, rows):
    """The galleries that the rows speak of."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(7)
    for one in rows:
        found = one["reconstruction"]
        if found and found["gallery"]:
            through = leak(one["defence"], one["value"])
            count = found["images"]
            guessed = {"guesses": np.roll(digits()[:count], 1, 0)} if "blind" in found else {}
            np.savez_compressed(folder / found["gallery"], originals=digits()[:count],
                                reconstructions=rebuilt(through, noise, count),
                                **guessed)  # fmt: skip


def comparison_rows(seeds=3, attacks=("inverting-gradients", "membership-threshold"), **options):
    noise = np.random.default_rng(0)
    return [
        row(defence, value, seed, attack, f"{defence}-{value}-{seed}-{attack}", noise, **options)
        for defence, values in STRENGTHS.items()
        for value in values
        for seed in range(seeds)
        for attack in attacks
    ]


def identified(defence, through, candidates, participation, games=400):
    """One entry of ``identification``: near its bound where there is one."""
    blind = 1 / candidates
    reach = (np.exp(3 * through) - 1) / 9  # as the ReRo bound of these rows, at one in ten
    if participation == "known":
        reach **= 0.25
    proven = not defence.endswith("channel")
    bound = 1.0 if defence in ("none", "clip") else min(1.0, blind + (1 - blind) * reach)
    rate = blind + 0.85 * (bound - blind)
    half = 1.96 * np.sqrt(rate * (1 - rate) / games)
    bound = bound if proven else None
    return {
        "candidates": candidates, "rate": rate, "low": max(0.0, rate - half),
        "high": min(1.0, rate + half), "confidence": 0.95, "games": games, "runs": 4,
        "blind": blind, "participation": participation, "bound": bound,
        "relation": "add-or-remove-one",
        "reason": "" if proven else "noise on records has no bound for this game",
    }  # fmt: skip


def modern_rows(seeds=1, **options):
    """Rows with threats, games, blind guesses and floors, as 0.2 writes them."""
    rows = comparison_rows(seeds, **options)
    noise = np.random.default_rng(5)
    out = []
    for one in rows:
        through = leak(one["defence"], one["value"])
        made = one["reconstruction"]
        one |= {"threat": "update" if made else "model", "identification": [], "floors": []}
        one["attack_options"] = {"participation": "secret", "threat": None}
        if made:
            one["attack_options"]["labels"] = True
            made["images_from"] = "held-out records"
            count = len(made["mse"])
            blind = noise.uniform(0.08, 0.14, count)
            value = 1 - sum(made["mse"]) / blind.sum()
            likeness = float(np.mean(made["ssim"])) - 0.25
            made["blind"] = {
                "guess": "the class mean", "mse": blind.tolist(), "ssim": [0.25] * count,
                "mse_mean": float(blind.mean()), "ssim_mean": 0.25,
            }  # fmt: skip
            made["gain"] = {
                "mse": {"value": value, "low": value - 0.2, "high": value + 0.2, "level": 0.95,
                        "most": value + 0.3, "victims": count},
                "ssim": {"value": likeness, "low": likeness - 0.1, "high": likeness + 0.1,
                         "level": 0.95, "most": likeness + 0.2, "victims": count},
            }  # fmt: skip
            made["beats_guessing"] = value > 0.2 or likeness > 0.1
            one["floors"] = [
                {"key": "packing", "mse": 0.02 * (1 - through), "proven": True, "worst_case": False,
                 "prior": "64 public records", "sentence": "No intruder has a smaller error."},
            ]  # fmt: skip
        out.append(one)
        if one["attack"].startswith("member"):
            game = {**one, "attack": "identification", "threat": "training", "membership": None,
                    "claims": [], "key": one["key"] + "-game"}  # fmt: skip
            game["identification"] = [
                identified(one["defence"], through, n, side)
                for side in ("secret", "known")
                for n in (10, 100, 1000)
            ]
            out.append(game)
    return out


def comparison(folder, **options):
    rows = comparison_rows(**options)
    pictures(folder, rows)
    return write(folder, rows)


def federation(folder, rounds=3, clients=2, *, ground_truth=True):
    noise = np.random.default_rng(0)
    rows = []
    for index in range(rounds):
        for client in range(clients):
            for defence, value in (("none", None), ("vmf", 500.0)):
                one = row(
                    defence,
                    value,
                    0,
                    "inverting-gradients",
                    f"{index}-{client}-{defence}",
                    noise,
                    study="federate",
                )
                one |= {"kind": "federated", "round": index + 1, "client": f"client {client}",
                        "ground_truth": ground_truth, "ledger": {"steps": index + 1}}  # fmt: skip
                one["reconstruction"]["agreement"] = 0.8
                if not ground_truth:
                    for name in (
                        "mse",
                        "psnr",
                        "ssim",
                        "mse_mean",
                        "ssim_mean",
                        "ssim_worst",
                        "mse_worst",
                        "mse_median",
                        "psnr_mean",
                    ):
                        one["reconstruction"][name] = None
                rows.append(one)
    pictures(folder, rows)
    return write(folder, rows)
