# SPDX-License-Identifier: GPL-3.0-or-later
"""Encode prompts of any length and any script. Side: generator.

A text encoder of the CLIP family reads a window of 77 tokens, two of which mark begin and end. A
longer prompt is encoded in several windows whose results are put one after another, which the
UNet's cross-attention takes as they are. The prompt and the negative prompt get the same number
of windows (bug report P127). A prompt that fits into one window and has no weights gives, bit for
bit, what diffusers gives.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..prompting import weights
from .errors import InvalidRequestError
from .pipelines import LoadedModel

if TYPE_CHECKING:
    from transformers import CLIPTextModel, CLIPTokenizer

_Token = tuple[int, float]
"""The number of a token, and its weight."""

_LOOK_BACK = 15  # tokens that a window may stay shorter so as not to cut a word


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPrompt:
    """What the UNet is conditioned on, for one image.

    Embeddings are (1, tokens, features), pooled ones (1, features) and only there for SDXL. The
    negative ones are None without guidance.
    """

    embeds: torch.Tensor
    negative_embeds: torch.Tensor | None
    pooled: torch.Tensor | None
    negative_pooled: torch.Tensor | None

    def arguments(self, images: int) -> dict[str, torch.Tensor]:
        """Return the arguments of a diffusers pipeline for this many images."""
        named = {
            "prompt_embeds": self.embeds,
            "negative_prompt_embeds": self.negative_embeds,
            "pooled_prompt_embeds": self.pooled,
            "negative_pooled_prompt_embeds": self.negative_pooled,
        }
        return {
            name: value.repeat_interleave(images, dim=0)
            for name, value in named.items()
            if value is not None
        }


def encode(model: LoadedModel, prompt: str, negative_prompt: str, *, guided: bool) -> EncodedPrompt:
    """Encode a prompt and, with guidance, the negative prompt.

    Args:
        model: The model whose tokenizers and text encoders are used.
        prompt: Any text, also empty. Weights are those of `prompting.weights`.
        negative_prompt: Likewise. Where SDXL is trained so, an empty one is all zeros.
        guided: Whether classifier-free guidance is used.

    Raises:
        InvalidRequestError: A text holds half of a surrogate pair, which is no character, or a
            weight that is out of range.
    """
    check_text("Prompt", prompt)
    check_text("Negative prompt", negative_prompt)
    pipeline = model.pipeline
    readers = [_Reader(pipeline.tokenizer, pipeline.text_encoder, sdxl=model.kind == "sdxl")]
    if model.kind == "sdxl":
        readers.append(_Reader(pipeline.tokenizer_2, pipeline.text_encoder_2, sdxl=True))
    texts = [prompt, negative_prompt] if guided else [prompt]
    windows = [[reader.windows(text) for text in texts] for reader in readers]
    count = max(len(of_text) for of_reader in windows for of_text in of_reader)
    device = model.device.torch_device
    encoded: list[tuple[torch.Tensor, torch.Tensor | None]] = []
    for position in range(len(texts)):
        parts = [
            reader.encode(of_reader[position], count, device)
            for reader, of_reader in zip(readers, windows, strict=True)
        ]
        embeds = torch.cat([part[0] for part in parts], dim=-1)
        encoded.append((embeds.to(dtype=model.dtype), parts[-1][1]))
    negative: tuple[torch.Tensor | None, torch.Tensor | None] = (
        encoded[1] if guided else (None, None)
    )
    if guided and not negative_prompt and _wants_zeros(model):
        negative = (torch.zeros_like(encoded[0][0]), _zeros_like(encoded[0][1]))
    return EncodedPrompt(
        embeds=encoded[0][0],
        negative_embeds=negative[0],
        pooled=encoded[0][1],
        negative_pooled=negative[1],
    )


def check_text(name: str, text: str) -> None:
    """Refuse what cannot be written in UTF-8, and say where it is."""
    for position, character in enumerate(text, start=1):
        if 0xD800 <= ord(character) <= 0xDFFF:
            raise InvalidRequestError(
                f"{name} holds half of a character (U+{ord(character):04X}) at position {position}."
                " Delete it and type the character again."
            )


def _wants_zeros(model: LoadedModel) -> bool:
    return model.kind == "sdxl" and bool(model.pipeline.config.force_zeros_for_empty_prompt)


def _zeros_like(value: torch.Tensor | None) -> torch.Tensor | None:
    return None if value is None else torch.zeros_like(value)


class _Reader:
    """One tokenizer with its text encoder."""

    def __init__(
        self, tokenizer: "CLIPTokenizer", text_encoder: "CLIPTextModel", *, sdxl: bool
    ) -> None:
        self._tokenizer = tokenizer
        self._text_encoder = text_encoder
        self._sdxl = sdxl
        longest = text_encoder.config.max_position_embeddings
        self._window = min(int(tokenizer.model_max_length), int(longest))

    def windows(self, text: str) -> list[list[_Token]]:
        """Return the tokens of each window, without begin, end and padding. At least one window."""
        tokens: list[_Token] = []
        for piece in weights.parse(text).pieces:
            ids = self._tokenizer(piece.text, add_special_tokens=False, verbose=False).input_ids
            tokens += [(token_id, piece.weight) for token_id in ids]
        capacity = self._window - 2
        windows: list[list[_Token]] = []
        while len(tokens) > capacity:
            cut = self._end_of_word(tokens, capacity)
            windows.append(tokens[:cut])
            tokens = tokens[cut:]
        return [*windows, tokens]

    def encode(
        self, windows: list[list[_Token]], count: int, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return embeddings (1, count * window, features) and, for SDXL, the pooled ones.

        Weights do not touch the pooled ones.
        """
        embeds: list[torch.Tensor] = []
        pooled: torch.Tensor | None = None
        for tokens in windows + [[]] * (count - len(windows)):
            of_window, pooled_of_window = self._encode_window(tokens, device)
            embeds.append(self._weighted(of_window, tokens, device))
            pooled = pooled_of_window if pooled is None else pooled
        return torch.cat(embeds, dim=1), pooled

    def _encode_window(
        self, tokens: list[_Token], device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        whole, mask = self._whole_window([token_id for token_id, _ in tokens], device)
        output = self._text_encoder(whole, attention_mask=mask, output_hidden_states=self._sdxl)
        if not self._sdxl:
            return output[0], None
        return output.hidden_states[-2], output[0] if output[0].ndim == 2 else None

    def _weighted(
        self, embeds: torch.Tensor, tokens: list[_Token], device: torch.device
    ) -> torch.Tensor:
        """Return embeddings in which each token counts as much as its weight.

        A token goes from what stands at its place in an empty prompt (weight 0) through what it is
        (1) and beyond: e + w * (z - e). Begin, end and padding stay. Source:
        `ClipTokenWeightEncoder` of ComfyUI. The web UI multiplies instead, w * z, and scales the
        window so that its mean is as before; this divides by a mean that may be next to 0, as with
        SDXL.
        """
        if all(weight == 1.0 for _, weight in tokens):
            return embeds
        empty, _ = self._encode_window([], device)
        factors = torch.ones((1, self._window, 1), device=embeds.device, dtype=embeds.dtype)
        of_tokens = torch.tensor([weight for _, weight in tokens], dtype=embeds.dtype)
        factors[0, 1 : len(tokens) + 1, 0] = of_tokens
        return torch.where(factors == 1.0, embeds, empty + factors * (embeds - empty))

    def _whole_window(
        self, ids: list[int], device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        tokenizer = self._tokenizer
        used = [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]
        padding = self._window - len(used)
        whole = torch.tensor([used + [tokenizer.pad_token_id] * padding], device=device)
        if not getattr(self._text_encoder.config, "use_attention_mask", False):
            return whole, None
        return whole, torch.tensor([[1] * len(used) + [0] * padding], device=device)

    def _end_of_word(self, tokens: list[_Token], capacity: int) -> int:
        earliest = max(1, capacity - _LOOK_BACK)
        ids = [token_id for token_id, _ in tokens[earliest:capacity]]
        names = self._tokenizer.convert_ids_to_tokens(ids)
        for back, token in enumerate(reversed(names)):
            if token.endswith("</w>"):
                return capacity - back
        return capacity
