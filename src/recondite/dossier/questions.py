"""What four documents ask of a run like this, and where the dossier answers, or that it does not.

The questions are ours, in our words: what each document asks, as far as a training run could
answer. Chapters are named where they are certain. A question that no run can answer is kept, and
says so: whoever assesses must find its answer elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recondite.dossier.attacks import AttackTrial
from recondite.dossier.source import DossierRun
from recondite.report.answer import Answers
from recondite.report.released import threat_of

__all__ = ["NOT_ANSWERED", "Question", "Table", "tables"]

NOT_ANSWERED = "not answered by this run"

# The dossier's parts by their anchors.
PARTS = {
    "trained": "1 What was trained on whom",
    "protected": "2 Who is protected, and from whom",
    "promises": "3 What is promised",
    "attacks": "4 What intruders tried",
    "not-covered": "5 What is not covered",
    "search": "6 How settings were chosen",
    "software": "7 Software",
    "verify": "8 How to verify again",
}


@dataclass(frozen=True)
class Question:
    """One question and its answer: ``anchor`` is a part of the dossier, or None."""

    question: str
    place: str
    answered: bool
    anchor: str | None
    where: str


@dataclass(frozen=True)
class Table:
    """The questions of one document."""

    key: str
    document: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class _Facts:
    """What a run has, to tell which questions it answers."""

    bounded: bool
    epsilon: bool
    rero: bool
    relation: bool
    accuracy: bool
    attacks: frozenset[str]
    threats: frozenset[str]
    known: bool
    audited: bool
    baseline: bool
    study: bool
    versions: bool


_Needs = Callable[[_Facts], bool]
# Question, chapter or "", part of the dossier or None, and what the run must have for it.
_Asked = tuple[str, str, str | None, _Needs]


def _always(_: _Facts) -> bool:
    return True


def _bounded(facts: _Facts) -> bool:
    return facts.bounded


_NIST: tuple[_Asked, ...] = (
    ("Who or what does the guarantee protect: a record, a person, a group of records?",
     "chapter 2", "protected", _bounded),
    ("Which two data sets does it compare: one record added, removed or replaced?",
     "chapter 2", "protected", lambda f: f.relation),
    ("What are ε and δ, as an upper bound for everything that is released?",
     "chapter 2", "promises", lambda f: f.epsilon),
    ("What does the number mean for somebody whose record took part?",
     "chapter 2", "promises", lambda f: f.rero or f.epsilon),
    ("Can it be compared with the guarantees of other settings on equal terms?",
     "chapter 2", "promises", lambda f: f.study and f.bounded),
    ("Why is this ε right for these people and this use?", "chapter 2", None, _always),
    ("Which mechanism adds the noise, and how is one record’s influence bounded?",
     "chapter 3", "promises", _bounded),
    ("How are many steps and sampled batches put together into one guarantee?",
     "chapter 3", "promises", _bounded),
    ("What does the noise cost in accuracy?", "chapter 3", "trained",
     lambda f: f.accuracy and f.baseline and f.bounded),
    ("Does it cost some groups more accuracy than others?", "chapter 3", None, _always),
    ("Were hyper-parameters chosen on the same records, and is that counted?",
     "chapter 3", "search", lambda f: f.study),
    ("Who has to be trusted with raw records, and what do others see?",
     "chapter 4", "protected", _always),
    ("Is the noise drawn from a source that nobody can predict or draw again?",
     "chapter 4", "protected", _bounded),
    ("Was the implementation tested against its claim?", "chapter 4", "attacks",
     lambda f: f.audited),
    ("Who controls access to records, weights and logs?", "chapter 4", None, _always),
    ("How were the records collected, and how much of them is needed?", "chapter 4", None, _always),
)  # fmt: skip

_ICO: tuple[_Asked, ...] = (
    ("Who might want to find somebody, and what could move them?", "", None, _always),
    ("What does the intruder start with: the model, one update, the whole training?",
     "", "protected", _always),
    ("What does the intruder know besides: other records, who took part when, public data?",
     "", "attacks", lambda f: bool(f.attacks)),
    ("Was singling out tried: picking somebody’s record from candidates?",
     "", "attacks", lambda f: "identification" in f.attacks),
    ("Was it tried to tell whether somebody is in the data at all?",
     "", "attacks", lambda f: "membership" in f.attacks),
    ("Was it tried to rebuild what a record says?", "", "attacks",
     lambda f: "reconstruction" in f.attacks),
    ("Was linking with other sources about the same people tried?", "", None, _always),
    ("How skilled and how well equipped was the intruder who was tried?", "", "attacks",
     lambda f: bool(f.attacks)),
    ("How often did they succeed, against guessing, and could the test have noticed?",
     "", "attacks", lambda f: bool(f.attacks)),
    ("Is there a limit for intruders more skilled than those who were tried?",
     "", "promises", _bounded),
    ("Would a friend or colleague with inside knowledge succeed?", "", "attacks",
     lambda f: f.known),
    ("Is what was done written down so that others can repeat it?", "", "verify", _always),
    ("When will the assessment be looked at again?", "", None, _always),
)  # fmt: skip

_EDPB: tuple[_Asked, ...] = (
    ("From which sources were the records chosen, and why these?", "section 3.2", None, _always),
    ("How were records prepared, reduced or filtered before training?", "section 3.2", "trained",
     _always),
    ("Which choices in training limit what the model keeps of one person?", "section 3.2",
     "promises", _bounded),
    ("How likely is it to draw a person’s data out of the model itself?", "section 3.2", "attacks",
     lambda f: "model" in f.threats),
    ("How likely is it to obtain a person’s data through queries, on purpose or not?",
     "section 3.2", None, _always),
    ("Was membership inference tried, with what result?", "section 3.2", "attacks",
     lambda f: "membership" in f.attacks),
    ("Was reconstruction of training records tried, with what result?", "section 3.2", "attacks",
     lambda f: "reconstruction" in f.attacks),
    ("Was model inversion tried, with what result?", "section 3.2", "attacks",
     lambda f: "inversion" in f.attacks),
    ("Was it tried to infer attributes, or to have the model repeat its training data?",
     "section 3.2", None, _always),
    ("How does the result hold against means that may come to be used later?", "section 3.2",
     "promises", _bounded),
    ("Do documents show tests, their results and who made them?", "section 3.2", "attacks",
     lambda f: bool(f.attacks)),
    ("Was there an impact assessment, and what did the data protection officer advise?",
     "section 3.2", None, _always),
    ("What keeps those who use the model from trying, by contract or by technique?",
     "section 3.2", None, _always),
    ("On which interest does the processing rest, and was it balanced?", "section 3.3", None,
     _always),
    ("Were the records obtained lawfully, and what follows for the model if not?",
     "section 3.4", None, _always),
)  # fmt: skip

_OPENDP: tuple[_Asked, ...] = (
    ("Who is the curator, and since when is it in use?", "tier 1", None, _always),
    ("What is the product meant for?", "tier 1", None, _always),
    ("What is the product, in a few words?", "tier 1", "trained", _always),
    ("Which flavour of differential privacy?", "tier 2", "promises", lambda f: f.epsilon),
    ("What is the unit of privacy?", "tier 2", "protected", _bounded),
    ("What are the privacy-loss parameters?", "tier 2", "promises", lambda f: f.epsilon),
    ("Central, local or between them: who sees raw records?", "tier 2", "protected", _always),
    ("What is the data domain, and what is left unprotected?", "tier 3", "not-covered", _always),
    ("Which relation between data sets is used?", "tier 3", "protected", lambda f: f.relation),
    ("How is the loss of many releases put together, and what is post-processing?", "tier 3",
     "promises", _bounded),
    ("With which software was it made, and how can it be checked?", "tier 3", "software",
     lambda f: f.versions),
    ("Why were these parameters chosen?", "tier 3", None, _always),
    ("How is the implementation secured (noise, floating point, timing)?", "tier 3", None, _always),
)  # fmt: skip

_DOCUMENTS = (
    ("nist-sp-800-226",
     "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (March 2025)",
     _NIST),
    ("ico-motivated-intruder",
     "The motivated-intruder test of the UK Information Commissioner’s Office (March 2025)", _ICO),
    ("edpb-28-2024",
     "EDPB Opinion 28/2024 on personal data in the context of AI models (December 2024)", _EDPB),
    ("opendp-registry",
     "OpenDP’s Differential Privacy Deployments Registry, by its tiers of transparency", _OPENDP),
)  # fmt: skip


def tables(source: DossierRun, answers: Answers, attacks: Sequence[AttackTrial]) -> list[Table]:
    """The four tables of a run."""
    facts = _facts(source, answers, attacks)
    return [
        Table(key, document, tuple(_answer(asked, facts) for asked in questions))
        for key, document, questions in _DOCUMENTS
    ]


def _answer(asked: _Asked, facts: _Facts) -> Question:
    question, place, anchor, needs = asked
    answered = anchor is not None and needs(facts)
    where = PARTS[anchor] if anchor is not None and answered else NOT_ANSWERED
    return Question(question, place, answered, anchor if answered else None, where)


def _facts(source: DossierRun, answers: Answers, attacks: Sequence[AttackTrial]) -> _Facts:
    points = [point for point in answers.points if point.bounded]
    rows = [row for point in answers.points for row in point.rows]
    tried = {
        kind
        for row in rows
        for kind in ("reconstruction", "membership", "identification")
        if row.get(kind)
    }
    # To rebuild somebody from the trained model alone is to invert it.
    if any(row.get("reconstruction") and threat_of(row) == "model" for row in rows):
        tried.add("inversion")

    def finite(key: str) -> bool:
        return any(
            value is not None and math.isfinite(value)
            for point in points
            if (value := point.notions.get(key)) is not None
        )

    return _Facts(
        bounded=bool(points),
        epsilon=finite("epsilon"),
        rero=finite("rero_bound"),
        relation=any(point.neighbouring for point in points),
        accuracy=any("accuracy" in point.values for point in answers.points),
        attacks=frozenset(tried),
        threats=frozenset(trial.threat for trial in attacks if trial.power != "none"),
        known=any(trial.participation == "known" and trial.power != "none" for trial in attacks),
        audited=any(trial.attack.startswith("Audit") for trial in attacks),
        baseline=answers.undefended(0) is not None,
        study=source.kind == "study",
        versions=bool(source.run.study.get("machine") or source.run.study.get("versions")),
    )
