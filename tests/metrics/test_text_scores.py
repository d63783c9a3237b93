"""Scores of texts against values counted by hand."""

import pytest

from recondite.metrics.text import exact_share, longest_passage, rouge_l, rouge_n

# Eleven words each.
ORIGINAL = "the patient was seen on monday and the dose was raised"
REBUILT = "the patient was seen on friday and dose was raised again"
TRUE, FOUND = ORIGINAL.split(), REBUILT.split()


def test_tokens_count_where_they_stand():
    assert exact_share(FOUND, TRUE) == 6 / 11  # up to "on", and "and"; the rest is shifted
    assert exact_share(TRUE[:5], TRUE) == 5 / 11
    assert exact_share([*TRUE, "more"], TRUE) == 1.0


def test_rouge_n_counts_n_grams_with_their_repetitions():
    # Words in both: the (1 of 2), patient, was (2), seen, on, and, dose, raised: 9.
    assert rouge_n(FOUND, TRUE, 1) == pytest.approx(2 * 9 / 22)
    # Pairs in both: the patient, patient was, was seen, seen on, dose was, was raised: 6 of 10.
    assert rouge_n(FOUND, TRUE, 2) == pytest.approx(2 * 6 / 20)
    assert rouge_n(["was", "was", "was"], ["was"], 1) == pytest.approx(2 * 1 / 4)


def test_rouge_l_is_of_the_longest_common_subsequence():
    # the patient was seen on … and … dose was raised: 9.
    assert rouge_l(FOUND, TRUE) == pytest.approx(2 * 9 / 22)
    assert rouge_l(["b", "a"], ["a", "b"]) == 0.5


def test_the_longest_passage_may_stand_anywhere():
    assert longest_passage(FOUND, TRUE) == 5
    assert longest_passage(["x", *TRUE[7:]], TRUE) == 4
    assert longest_passage(["x"], TRUE) == 0


def test_copies_are_perfect_and_nothing_is_nothing():
    for tokens in (TRUE, ["one"]):
        values = exact_share(tokens, tokens), rouge_l(tokens, tokens), rouge_n(tokens, tokens, 2)
        assert values == (1.0, 1.0, 1.0)
    assert exact_share([], TRUE) == rouge_l([], TRUE) == rouge_n([], TRUE, 1) == 0.0
    assert longest_passage([], TRUE) == 0
