"""How a page shows one content: every kind's own, escaped, and nobody else's."""

import json

import torch

from recondite.attacks.outcome import Blind, Gallery, Outcome
from recondite.records.display import RIGHT, display

HOSTILE = '"><script>alert(1)</script>'


def test_each_media_type_has_its_display():
    assert display("image/png", b"\x89PNG", "original").startswith('<img class="content" src="data')
    row = json.dumps({"columns": ["age", "city"], "cells": ["41", "Bonn"], "right": [True, False]})
    shown = display("application/json", row.encode())
    assert "<mark>41</mark>" in shown
    assert "<dd>Bonn</dd>" in shown
    hidden = json.dumps({"columns": ["age"], "cells": None, "right": [True]})
    assert "<mark>right</mark>" in display("application/json", hidden.encode())
    passage = f"the {RIGHT[0]}cat{RIGHT[1]} sat"
    assert "the <mark>cat</mark> sat" in display("text/plain", passage.encode())


def test_contents_stay_text_and_what_cannot_be_read_is_named():
    row = json.dumps({"columns": [HOSTILE], "cells": [HOSTILE], "right": [True]})
    contents = [
        ("application/json", row.encode()), ("text/plain", HOSTILE.encode()),
        ("text/html", HOSTILE.encode()), (HOSTILE, b""), ("application/json", b"{"),
        ("application/json", b"[1]"), ("text/plain", b"\xff\xfe"),
        ("text/plain", f"{RIGHT[1]}a{RIGHT[0]}".encode()),
    ]  # fmt: skip
    for media, content in contents:
        shown = display(media, content, HOSTILE)
        assert "<script" not in shown
        assert shown.count("<mark>") == shown.count("</mark>")
    assert "cannot be shown (text/html)" in display("text/html", b"<b>")
    assert "cannot be shown" in display("application/json", b"{")
    assert "cannot be shown" in display("text/plain", b"\xff\xfe")


class Sentences:
    media = "text/plain"

    def rendered(self, rebuilt, original, *, reveal):
        assert reveal
        return f"is {int(original)}".encode(), f"found {int(rebuilt)}".encode()


def test_a_gallery_of_text_goes_through_its_file():
    made = Gallery.of(Sentences(), torch.arange(20) + 1, torch.arange(20), torch.zeros(20))
    back = Gallery.from_bytes(made.to_bytes())
    assert back.media == "text/plain"
    assert list(back.originals[:2]) == ["is 0", "is 1"]
    assert back.reconstructions[1] == "found 2"
    assert len(back.guesses) == 16
    assert set(back.guesses) == {"found 0"}


def test_an_outcomes_gallery_has_the_blind_guess_beside_it():
    import numpy as np

    from recondite.attacks.outcome import Rebuilt, RecordScores
    from recondite.metrics.floors import Metric

    images = np.zeros((2, 4, 4, 1), np.uint8)
    blind = Blind("mean", {}, {}, np.ones((5, 4, 4, 1), np.uint8))
    scores = RecordScores((Metric("ssim", "SSIM", "higher"),), {"ssim": (0.5,) * 2}, "ssim")
    found = Outcome(Rebuilt(scores, "test", blind=blind), Gallery(images, images))
    back = Gallery.from_bytes(found.pictures.to_bytes())
    assert back.media == "image/png"
    assert back.guesses.shape == (2, 4, 4, 1)
    assert Outcome(gallery=found.gallery).pictures.guesses is None


def test_a_gallery_in_another_order_keeps_each_ones_scores(tmp_path):
    import numpy as np

    from recondite.report.gallery import contents

    texts = np.array(["worst", "other"])
    held = Gallery(texts, texts, None, "text/plain", np.array([2, 0]))
    (tmp_path / "one.npz").write_bytes(held.to_bytes())
    assert Gallery.from_bytes(held.to_bytes()).places.tolist() == [2, 0]
    row = {"reconstruction": {"gallery": "one.npz", "exposure": "cells", "cells": [0.1, 0.2, 0.9],
                              "blind": {"cells": [0.0, 0.0, 0.3]}}}  # fmt: skip
    shown = contents(row, tmp_path).pictures
    assert [(one.place, one.original, one.likeness) for one in shown] == [
        (2, b"worst", 0.9),
        (0, b"other", 0.1),
    ]
    assert shown[0].blind == {"cells": 0.3}
