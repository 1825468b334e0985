# SPDX-License-Identifier: GPL-3.0-or-later
"""The tokenizer: byte-level pairs in CLIP's format, trained on the words of the captions."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from .captions import known_words

END_OF_WORD = "</w>"
LENGTH = 77
"""Tokens of a prompt, as in Stable Diffusion."""


def _merges(words: tuple[str, ...], alphabet: list[str]) -> list[tuple[str, str]]:
    """Learn pair merges until every word is one token."""
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix=END_OF_WORD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=10_000,
        min_frequency=1,
        initial_alphabet=alphabet,
        end_of_word_suffix=END_OF_WORD,
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(words)], trainer)
    learned = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(pair) if isinstance(pair, list) else tuple(pair.split(" ")) for pair in learned]


def build_tokenizer(folder: Path) -> CLIPTokenizer:
    """Make the tokenizer, write it to ``folder`` and return it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = _merges(known_words(), alphabet)
    names = [*alphabet, *(letter + END_OF_WORD for letter in alphabet)]
    names += ["".join(pair) for pair in merges]
    names = [*dict.fromkeys(names), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {name: index for index, name in enumerate(names)}
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=LENGTH)
    tokenizer.save_pretrained(folder)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load_tokenizer(folder)


def load_tokenizer(folder: Path) -> CLIPTokenizer:
    """Read the tokenizer from ``folder``."""
    tokenizer: CLIPTokenizer = CLIPTokenizer.from_pretrained(folder)
    return tokenizer
