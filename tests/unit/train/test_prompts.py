"""Invented prompts: as many as asked for, all different, the same for a seed, every slot filled."""

from __future__ import annotations

import random
import re
from importlib import resources

import pytest
import yaml

from eagle3.train.prompts import templated_prompts


@pytest.fixture(scope="module")
def source():
    """The template file."""
    text = resources.files("eagle3.train").joinpath("prompt_templates.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


@pytest.mark.parametrize("count", [0, 1, 2000])
def test_as_many_distinct_prompts_as_asked_for(count):
    """Exactly `count`, none twice."""
    prompts = templated_prompts(count, random.Random(0))
    assert len(prompts) == len(set(prompts)) == count


def test_prompts_depend_on_the_seed_alone():
    """One seed gives one list; another seed another; a shorter list is the beginning of a longer one."""
    first = templated_prompts(50, random.Random(3))
    assert first == templated_prompts(50, random.Random(3))
    assert first[:20] == templated_prompts(20, random.Random(3))
    assert first != templated_prompts(50, random.Random(4))


def test_every_slot_is_filled():
    """No braces and no empty words are left in three thousand prompts."""
    for prompt in templated_prompts(3000, random.Random(1)):
        assert not re.search(r"[{}]", prompt)
        assert prompt == prompt.strip()
        assert "  " not in prompt


def test_every_slot_of_every_template_has_words(source):
    """A template names only slots and ranges that exist, by its own name or without its number; all words are used."""
    used = set()
    for template in (template for category in source["templates"].values() for template in category):
        for name in re.findall(r"\{(\w+)\}", template):
            known = name if name in source["slots"] or name in source["ranges"] else name.rstrip("0123456789")
            assert known in source["slots"] or known in source["ranges"], f"{name} in {template!r}"
            used.add(known)
        assert not re.search(r"\{(?!\w+\})", template), template
    assert used == set(source["slots"]) | set(source["ranges"])


def test_words_are_texts_and_ranges_rise(source):
    """YAML turns some words into booleans and numbers; none here. A range has a lower and an upper end."""
    for name, words in source["slots"].items():
        assert all(isinstance(word, str) and word for word in words), name
        assert len(set(words)) == len(words), name
    assert all(low < high for low, high in source["ranges"].values())
    templates = [template for category in source["templates"].values() for template in category]
    assert len(set(templates)) == len(templates)


def test_every_category_is_drawn(source):
    """Categories are drawn evenly, so each has its share of a thousand prompts."""
    prompts = templated_prompts(1000, random.Random(5))
    for name, templates in source["templates"].items():
        patterns = [re.sub(r"\\\{\w+\\\}", ".+", re.escape(template)) for template in templates]
        share = sum(any(re.fullmatch(pattern, prompt) for pattern in patterns) for prompt in prompts) / 1000
        assert share > 0.5 / len(source["templates"]), name
