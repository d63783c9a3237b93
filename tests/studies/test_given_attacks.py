"""Attacks on files and on a model that was given, from Python: classes by name, sizes, seeds."""

import numpy as np
import pytest
import torch
from PIL import Image

import recondite as rc
from recondite.attacks.files import save_gradients
from recondite.attacks.membership import base
from recondite.gradients.leaked import leaked_gradients
from recondite.models import build, save_weights
from recondite.records import load
from recondite.studies.given_gradients import attack_file
from recondite.studies.given_model import attack_members

GAUSSIAN = {"name": "gaussian", "noise_multiplier": 0.05}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Public digits and two originals, as images in subfolders by class; a leak; weights."""
    root, digits = tmp_path_factory.mktemp("given"), load("digits")
    model = build("mlp", digits.shape, 3, seed=1)
    save_weights(model, root / "w.safetensors")
    names = ("zero", "one", "two")
    few = digits.subset(torch.nonzero(digits.labels < 3).flatten()[:62])
    for number, (image, label) in enumerate(zip(few.images, few.labels, strict=True)):
        part = "public" if number >= 2 else "originals"
        path = root / part / names[int(label)] / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image[0] * 255).round().to(torch.uint8).numpy()).save(path)
    # As the folder of the originals is read: classes in the order of their names.
    order = sorted(range(2), key=lambda n: names[int(few.labels[n])])
    places = torch.tensor([sorted(names).index(names[int(few.labels[n])]) for n in order])
    images = (few.images[order] * 255).round() / 255
    leak = leaked_gradients(model, images[:, None], places[:, None], rc.Gaussian(0.05), seed=2)
    save_gradients(leak, root / "g.safetensors")
    return root, places


def test_classes_are_matched_by_the_names_of_folders(folder):
    root, places = folder
    found = attack_file(
        "importance-weights",
        {},
        model="mlp",
        weights=str(root / "w.safetensors"),
        gradients=[root / "g.safetensors"],
        classes=3,
        defence=GAUSSIAN,
        public=str(root / "public"),
        originals=str(root / "originals"),
        seed=0,
    )
    body = found.record["reconstruction"]
    assert body["labels"] == places[:, None].tolist()
    assert body["labels_right"] == 1
    assert body["gain"]["mse"]["value"] > 0
    assert found.originals.shape == found.reconstructions.shape


def test_references_get_as_many_records_as_the_model_is_said_to_have_had(folder, monkeypatch):
    root, _ = folder
    model = build("mlp", (1, 8, 8), 10, seed=1)
    save_weights(model, root / "ten.safetensors")
    seen, real = [], base.train_references
    monkeypatch.setattr(
        base, "train_references", lambda *a, **k: (seen.append(k["size"]), real(*a, **k))[1]
    )
    for records in (None, 90):
        attack_members(
            "membership-reference",
            {"references": 2},
            model="mlp",
            weights=str(root / "ten.safetensors"),
            members="digits@0:40",
            non_members="digits@0:40",
            public="digits@40:300",
            prepare="none",
            records=records,
            training={"epochs": 1},
        )
    assert seen == [40, 90]


def test_other_classes_are_refused(folder):
    root, _ = folder
    np.savez(root / "in.npz", images=np.zeros((3, 8, 8)), labels=np.array([0, 1, 2]))
    np.savez(root / "out.npz", images=np.ones((3, 8, 8)), labels=np.array([0, 1, 5]))
    with pytest.raises(ValueError, match="has labels up to 5, and there are 3 classes"):
        attack_members(
            "membership-threshold",
            {},
            model="mlp",
            weights=str(root / "w.safetensors"),
            members=str(root / "in.npz"),
            non_members=str(root / "out.npz"),
            prepare="none",
        )
