"""The page: structure, escaping, privacy, size, contrast."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import synthetic

from recondite import report
from recondite.report import static
from recondite.report.page import _asset
from recondite.report.quantities import axes

VOID = {"meta", "link", "img", "input", "br", "hr"}


class Outline(HTMLParser):
    """Checks nesting and collects what matters."""

    def __init__(self):
        super().__init__()
        self.stack, self.ids, self.tags, self.images, self.refs = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "img":
            self.images.append(attrs)
        for name in ("aria-labelledby", "for"):
            if attrs.get(name):
                self.refs.append(attrs[name])
        if attrs.get("href", "").startswith("#"):
            self.refs.append(attrs["href"][1:])
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack, tag
        assert self.stack.pop() == tag


def outline(html):
    parser = Outline()
    parser.feed(html)
    assert not parser.stack
    return parser


def test_the_file_is_whole_small_and_asks_nothing_of_the_network(html):
    assert len(html.encode()) < 1_000_000
    assert html.rstrip().endswith("</html>")
    for address in re.findall(r'(?:src|href)="([^"]*)"', html):
        assert address.startswith(("data:", "#")), address
    assert "@import" not in html
    assert "url(" not in html


def test_elements_nest_and_references_resolve(html):
    found = outline(html)
    assert len(found.ids) == len(set(found.ids))
    assert set(found.refs) <= set(found.ids)
    assert all(image.get("alt") for image in found.images)
    names = [tag for tag, _ in found.tags]
    assert all(landmark in names for landmark in ("header", "nav", "main", "footer"))
    assert names.count("h1") == 1
    assert 'class="skip" href="#main"' in html


def test_the_sections_come_in_order(html):
    order = ["answer", "tradeoff", "gallery", "claims", "planes", "made"]
    places = [html.index(f'<section id="{name}"') for name in order]
    assert places == sorted(places)


def test_the_answer_reads_without_scripts(html):
    text = re.sub(r"<[^>]+>", "", html[html.index('id="verdict"') : html.index('id="tiles"')])
    assert "it keeps" in text
    assert "No intruder who sees the whole training" in text
    assert "rests on secret participation" in text
    assert "The chart needs scripts; its numbers are in the table below" in html


def test_it_says_what_epsilon_covers_and_that_it_is_a_simulation(html):
    assert "for one training run" in html
    assert "publishing this report" in html
    assert "Models without a bound were trained on the way" in html
    assert "Simulation" in html


def test_it_says_what_choosing_costs(html):
    assert "The price of this choice is zero here, because the records are public" in html
    assert "publishing a table of all runs then has no finite ε" in html


def test_risk_gains_floors_and_victims_are_on_the_page(modern):
    html = modern
    outline(html)
    assert html.index('<section id="answer"') < html.index('<section id="risk"')
    for text in (
        "no such intruder can exceed", "out of 1,000", "no better than guessing",
        "bound, the average",
        "of the guess’s error gone", "on the untrained model, 1 in an update, labels told",
        "whose reconstructions are no better than guessing", "too weak to tell",
    ):  # fmt: skip
        assert text in html, text
    assert html.count('data-view="training secret"') == html.count('data-view="model known"') == 2
    assert "safest" not in html


def test_only_the_reports_own_scripts_and_styles_may_run(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    policy = policy.replace("&#39;", "'").replace("&#43;", "+")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"<[^>]* style=", html[html.index("<body") : html.index("<script")])


def voice(html, name):
    """The text of the page in one voice."""
    other = {"plain": "technical", "technical": "plain"}[name]
    body = html[html.index("<main") : html.index("<footer")]

    class Text(HTMLParser):
        depth, out = 0, ""

        def handle_starttag(self, tag, attrs):
            if tag not in VOID:
                hides = other in (dict(attrs).get("class") or "").split()
                self.depth += bool(self.depth or hides or tag == "option")

        def handle_endtag(self, tag):
            self.depth -= bool(self.depth)

        def handle_data(self, data):
            self.out += "" if self.depth else data

    reader = Text()
    reader.feed(body)
    return " ".join(reader.out.split())


def test_the_plain_voice_has_no_symbol_and_no_unit_of_the_field(modern):
    html = modern
    plain, full = voice(html, "plain"), voice(html, "technical")
    for word in (
        "ε", "δ", "σ", "κ", "ρ", "SSIM", "MSE", "PSNR", "AUC", "ReRo", "nats", "prior", "Rényi",
        "GDC", "Bayes", "mutual information", "DP-SGD",
    ):  # fmt: skip
        assert word not in plain, plain[max(0, plain.find(word) - 80) : plain.find(word) + 20]
    for word in ("ε", "SSIM", "nats", "ReRo", "AUC", "add-or-remove-one", "coin flips"):
        assert word in full
    assert "by guessing 1 in 10, never more than" in plain


def test_the_first_screen_is_one_person_in_four_tiles(modern):
    html = modern
    shown = re.findall(r'<div class="person" data-point="\w+">(.*?)</div>\n', html, re.S)
    assert len(shown) == 1  # the others wait for other budgets
    images = re.findall(r'src="([^"]+)" alt="([^"]+)"', shown[0])
    assert [name.split(" ")[0] for _, name in images] == ["The", "Rebuilt", "Rebuilt", "Best"]
    originals = [image for image, _ in images]
    assert len(set(originals[1:])) == 3  # undefended it is a copy
    assert originals[0] not in originals[2:]
    for text in ("What it costs", "Proven", "Not covered", "Rebuilt without a defence"):
        assert html.index(text) < html.index("The ladder")


def test_every_table_has_units_and_says_what_a_defence_rests_on(html):
    for table in re.findall(r"<table.*?</thead>", html, re.S):
        heads = re.findall(r"<th scope=\"col\"(?![^>]*text)[^>]*>(.*?)</th>", table, re.S)
        for head in heads:
            plain = re.sub(r"<[^>]+>", " ", head).strip()
            unitless = ("Defence", "Run", "Seed", "Client", "Attack", "Claimed", "Shown", "Picked")
            correlation = 'class="heat"' in table
            assert "<small" in head or correlation or plain.startswith(unitless), plain
    rests = html[html.index("Training and assumptions of each defence") :]
    assert "every batch was drawn by independent coin flips" in rests
    assert "batch size 128" in html


HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


def test_whatever_a_row_says_stays_text(tmp_path):
    rows = synthetic.comparison_rows(seeds=1)
    for row in rows:
        row["study"] = row["data"]["name"] = row["model"]["name"] = HOSTILE
        row["label"] += HOSTILE
        row["defence"] += HOSTILE
        row["notes"] = [HOSTILE]
        row["notions"]["reasons"] = {"epsilon": HOSTILE}
        if row["claims"]:
            row["claims"][0] |= {"how": HOSTILE, "lower": 1e9}
        if row["attack"].startswith("inv"):
            row["attack"] = HOSTILE
    rows[3] |= {"status": "failed", "reason": HOSTILE}
    run = synthetic.write(tmp_path / "run", rows, {"study": {HOSTILE: HOSTILE}})
    html = report.build(run, tmp_path / "r.html", title=HOSTILE).read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    outline(html)


def test_violated_bounds_come_first_with_a_sign_and_words(tmp_path):
    rows = synthetic.comparison_rows(seeds=1)
    row = next(r for r in rows if r["claims"] and r["defence"] == "vmf")
    row["claims"][0] |= {"lower": 77.0, "violated": True}
    run = synthetic.write(tmp_path / "run", rows)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert html.index("Violated bound") < html.index('<section id="answer"')
    assert "⚠" in html
    assert "✗" in html
    assert "77" in html[html.index("Violated bound") : html.index('<section id="answer"')]


def test_private_pictures_need_permission(tmp_path):
    run = synthetic.comparison(tmp_path / "run", seeds=1, public=False)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "data:image" not in html
    assert "--show-private" in html
    assert "not known to be public, so none is shown" in html
    html = report.build([run], tmp_path / "r.html", show_private=True).read_text(encoding="utf-8")
    assert "data:image" in html


def test_a_gallery_outside_of_its_run_is_not_read(tmp_path):
    rows = synthetic.comparison_rows(seeds=1)
    for row in rows:
        if row["reconstruction"]:
            row["reconstruction"]["gallery"] = "../secret.npz"
    run = synthetic.write(tmp_path / "run", rows)
    pictures = synthetic.digits()[:4]
    np.savez(tmp_path / "secret.npz", originals=pictures, reconstructions=pictures)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "data:image" not in html
    assert "could not be read" in html


def test_failed_cells_are_listed_with_their_reasons(tmp_path):
    rows = synthetic.comparison_rows(seeds=1)
    rows[-1] |= {"status": "failed", "reason": "the loss is not finite after step 12"}
    run = synthetic.write(tmp_path / "run", rows)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "the loss is not finite after step 12" in html


def test_two_runs_are_told_apart(run_dir, tmp_path):
    other = synthetic.write(tmp_path / "other", synthetic.comparison_rows(seeds=1, study="second"))
    html = report.build([run_dir, other], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "VMF · demo" in html
    assert "VMF · second" in html
    assert 'id="scope"' in html
    outline(html)


@pytest.mark.parametrize("ground_truth", [True, False])
def test_a_federation_has_a_section_a_round(tmp_path, ground_truth):
    run = synthetic.federation(tmp_path / "run", rounds=3, ground_truth=ground_truth)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    for index in (1, 2, 3):
        assert f"Round {index}" in html
    assert "client 1" in html
    assert (">estimate<" in html) == (not ground_truth)
    outline(html)


def test_attacks_alone_or_nothing_at_all_still_make_a_page(tmp_path):
    only = [r for r in synthetic.comparison_rows(seeds=1) if r["attack"].startswith("member")]
    run = synthetic.write(tmp_path / "one", only)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "told members from others with an AUC" in html
    bare = synthetic.comparison_rows(seeds=1, attacks=("none",))
    run = synthetic.write(tmp_path / "two", bare)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "No attack was tried" in html
    outline(html)
    failed = [{**row, "status": "failed", "reason": "no memory"} for row in bare]
    run = synthetic.write(tmp_path / "three", failed)
    html = report.build([run], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "no memory" in html


def test_many_rows_stay_a_usable_file(tmp_path):
    rows = []
    for index, row in enumerate(synthetic.comparison_rows(seeds=1) * 60):
        label = f"{row['label']} #{index // 2}"
        rows.append({**row, "key": str(index), "label": label, "value": float(index // 2)})
    run = synthetic.write(tmp_path / "run", rows)
    page = report.build([run], tmp_path / "r.html")
    assert page.stat().st_size < 3_000_000


def test_figures_for_papers(run_dir, tmp_path, monkeypatch):
    keys = [axis.key for axis in axes()]
    pairs = list(static._pairs(keys))
    # Every notion against accuracy and each attack, accuracy against attacks, both planes.
    assert len(pairs) == len(set(pairs)) == 7 + 7 * 4 + 1
    some = [("ssim", "accuracy"), ("epsilon", "mse"), ("imp_dra", "imp_mia")]
    assert set(some) <= set(pairs)
    monkeypatch.setattr(static, "_pairs", lambda keys: some)
    drawn = report.figures([run_dir], tmp_path / "figures", formats=("svg",))
    names = {path.stem for path in drawn}
    assert {
        "accuracy-against-ssim",
        "mse-against-epsilon",
        "imp_mia-against-imp_dra",
        "gallery",
    } <= names
    assert all(path.read_text().lstrip().startswith("<?xml") for path in drawn)
    with pytest.raises(ValueError, match="formats"):
        report.figures([run_dir], tmp_path, formats=("gif",))


def themes():
    """The variables of each theme, as they stand in the style sheet."""
    css = _asset("style.css")
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", css)
    for selector, body in blocks:
        variables = dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]+)", body))
        if "hue-0" in variables:
            yield selector.strip(), variables


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * d for d in colour[1:])
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


TEXT = [
    (front, back)
    for front in ("ink", "soft", "accent")
    for back in ("ground", "surface", "band", "wash")
]
TEXT += [("alarm", "alarm-wash"), ("ink", "alarm-wash"), ("good", "surface"), ("alarm", "surface")]
SHAPES = [(f"hue-{i}", "surface") for i in range(8)] + [("edge", "surface"), ("edge", "ground")]


def test_contrast_is_wcag_aa_in_every_theme():
    found = list(themes())
    assert len(found) == 4  # light, dark, dark by preference, paper
    for selector, variables in found:
        for one, other in TEXT:
            assert contrast(variables[one], variables[other]) >= 4.5, (selector, one, other)
        for one, other in SHAPES:
            assert contrast(variables[one], variables[other]) >= 3, (selector, one, other)
        if "on-accent" in variables:
            assert contrast(variables["on-accent"], variables["accent"]) >= 4.5


def test_both_dark_themes_are_the_same():
    dark = [variables for selector, variables in themes() if "paper" not in selector][1:3]
    assert dark[0] == dark[1]
