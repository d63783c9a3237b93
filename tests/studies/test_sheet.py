"""A contact sheet holds originals above reconstructions, pixel by pixel."""

import numpy as np
import pytest

from recondite.studies.sheet import contact_sheet

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("known", [True, False])
def test_images_are_where_they_belong(tmp_path, channels, known):
    rng = np.random.default_rng(0)
    originals, rebuilt = rng.integers(0, 255, (2, 10, 8, 8, channels), dtype=np.uint8)
    contact_sheet(rebuilt, originals if known else None, tmp_path / "sheet.png")
    sheet = np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB"))
    # 96 pixels a side; eight in a row, so the ninth begins the second band.
    step, deep = 96 + 6, (2 if known else 1) * (96 + 2) + 6
    assert sheet.shape == (2 * deep + 6, 8 * step + 6, 3)
    for index, (across, down) in {0: (0, 0), 7: (7, 0), 8: (0, 1)}.items():
        for row, images in enumerate([originals, rebuilt] if known else [rebuilt]):
            top, left = 6 + down * deep + row * 98, 6 + across * step
            shown = sheet[top : top + 96 : 12, left : left + 96 : 12]
            assert (shown == np.broadcast_to(images[index], (8, 8, 3))).all()


def test_where_nothing_can_be_written_is_said_in_a_line(tmp_path):
    with pytest.raises(ValueError, match=r"^cannot write .*: "):
        contact_sheet(np.zeros((1, 4, 4, 1), np.uint8), None, tmp_path / "absent" / "sheet.png")
