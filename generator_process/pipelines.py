# SPDX-License-Identifier: GPL-3.0-or-later
"""Load models, and keep the newest one. Side: generator.

Components are loaded one by one instead of through `DiffusionPipeline.from_pretrained`, so that no
code of a model repository can run, a missing file is named before anything heavy happens, each
component may come in another variant, and the safety checker is never loaded.
"""

import gc
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..models import model_name
from ..optimizations import Quantization
from . import model_files, reduced_weights
from .devices import Device, release_cached_memory
from .errors import ModelError
from .explanations import first_line, is_out_of_memory
from .messages import ModelRef
from .model_kinds import COMPONENTS, TOKENIZER, check_channels, check_kind, check_tokenizer

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline
    from transformers import CLIPTokenizer

_log = logging.getLogger(__name__)

_PIPELINE_STEP_PX = 8  # diffusers' pipelines refuse other sizes, whatever the VAE's factor

_CPU_VAE = "VAE in main memory"


@dataclass(slots=True, kw_only=True)
class LoadedModel:
    """A model that is ready to run.

    `pipeline` is a `StableDiffusionPipeline` or `StableDiffusionXLPipeline` whose scheduler must be
    set by each job; `scheduler_config` is the configuration that came with the model.
    `latent_factor` is the number of pixels for one latent, `step_px` what sizes have to be a
    multiple of, and `unit_px` the number of pixels for one value on the UNet's coarsest level.
    `folder` is where its components can be loaded again, or None if it came from elsewhere.
    `companions` are further pipelines that work on the same images, such as a refiner. `cache`
    keeps what is derived from the model, for as long as the model lives.
    """

    name: str
    kind: str
    pipeline: Any
    scheduler_config: Mapping[str, Any]
    device: Device
    dtype: torch.dtype
    latent_channels: int
    latent_factor: int
    step_px: int
    unit_px: int
    folder: Path | None = None
    companions: tuple[Any, ...] = ()
    cache: dict[str, Any] = field(default_factory=dict[str, Any])


class Models:
    """Loads models and keeps the last one, as there is rarely memory for two."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._key: tuple[object, ...] | None = None
        self._loaded: LoadedModel | None = None

    def load(
        self,
        model: ModelRef,
        dtype: torch.dtype,
        *,
        device: Device | None = None,
        quantization: Quantization = Quantization.OFF,
        layerwise_casting: bool = False,
    ) -> LoadedModel:
        """Return the model, from memory if it is the one that was used last.

        A model whose files have changed on disk is loaded again.

        Args:
            model: Which one.
            dtype: Type of the weights in memory, whatever it is on disk.
            device: Where it will compute, if not on the best device. Its weights are in the
                computer's memory until `optimizing.apply` places them.
            quantization: In how many bits the weights of the UNet's linear layers are kept.
            layerwise_casting: Whether the UNet's weights are kept in 8 bits.

        Raises:
            ModelError: The model is missing, incomplete, damaged or of an unsupported kind.
        """
        folder = model_files.folder_of(model)
        device = device or self._device
        key = (folder, device.kind, dtype, quantization, layerwise_casting, _fingerprint(folder))
        if self._loaded is None or self._key != key:
            self.release()
            plan = _LoadPlan(folder, model_name(model), device, dtype, quantization)
            loaded = _load(plan)
            if layerwise_casting:
                reduced_weights.cast_layerwise(loaded.pipeline.unet, dtype)
            self._loaded, self._key = loaded, key
        self._loaded.device = device  # of the same kind; more may be known of it by now
        return self._loaded

    def bytes_on(self, device: Device) -> int:
        """Return how many bytes the loaded model's weights have on a device."""
        if self._loaded is None:
            return 0
        networks = [
            part
            for part in self._loaded.pipeline.components.values()
            if isinstance(part, nn.Module)
        ]
        return sum(
            weight.nbytes
            for network in networks
            for weight in network.parameters()
            if weight.device.type == device.torch_device.type
        )

    def release(self) -> None:
        """Forget the loaded model and free its memory."""
        if self._loaded is not None:
            self._loaded = None
            self._key = None
            gc.collect()
            release_cached_memory(self._device)


def load_unet(model: LoadedModel, dtype: torch.dtype) -> "torch.nn.Module":
    """Return the UNet of a model that came from a folder, loaded anew into main memory.

    Raises:
        ModelError: Its files are missing or damaged.
    """
    assert model.folder is not None
    loaded = _load_component(model.folder / "unet", COMPONENTS[model.kind]["unet"], dtype)
    assert isinstance(loaded, torch.nn.Module)
    return loaded


def load_vae_on_cpu(model: LoadedModel) -> "torch.nn.Module | None":
    """Return a VAE in main memory in float32, the same one at each call.

    None if the model did not come from a folder.

    Raises:
        ModelError: Its files are missing or damaged.
    """
    if model.folder is None:
        return None
    if _CPU_VAE not in model.cache:
        part = model.folder / "vae"
        model.cache[_CPU_VAE] = _load_component(part, COMPONENTS[model.kind]["vae"], torch.float32)
    return model.cache[_CPU_VAE]


def _fingerprint(folder: Path) -> tuple[tuple[str, int, int], ...]:
    stats = [(path, path.stat()) for path in sorted(folder.glob("*/*")) if path.is_file()]
    return tuple((str(path), stat.st_mtime_ns, stat.st_size) for path, stat in stats)


@dataclass(frozen=True, slots=True)
class _LoadPlan:
    folder: Path
    name: str
    device: Device
    dtype: torch.dtype
    quantization: Quantization

    def quantization_of(self, part: str) -> Quantization:
        return self.quantization if part == "unet" else Quantization.OFF


def _load(plan: _LoadPlan) -> LoadedModel:
    folder, name, dtype = plan.folder, plan.name, plan.dtype
    kind = check_kind(folder, name)
    unet_config = model_files.read_json(folder / "unet" / "config.json")
    vae_config = model_files.read_json(folder / "vae" / "config.json")
    check_channels(name, unet_config, vae_config)
    scheduler_config = model_files.read_json(folder / "scheduler" / "scheduler_config.json")
    components = {
        part: _load_component(folder / part, class_name, dtype, plan.quantization_of(part))
        for part, class_name in COMPONENTS[kind].items()
    }
    pipeline = _assemble(kind, components, model_files.read_json(folder / model_files.INDEX))
    pipeline.set_progress_bar_config(disable=True)
    latent_factor = 2 ** (len(vae_config["block_out_channels"]) - 1)
    coarsest = 2 ** (len(unet_config["block_out_channels"]) - 1)
    _log.info("loaded %s as %s from %s", name, dtype, folder)
    return LoadedModel(
        name=name,
        kind=kind,
        pipeline=pipeline,
        scheduler_config=scheduler_config,
        device=plan.device,
        dtype=dtype,
        latent_channels=int(unet_config["in_channels"]),
        latent_factor=latent_factor,
        step_px=max(_PIPELINE_STEP_PX, latent_factor),
        unit_px=max(_PIPELINE_STEP_PX, latent_factor * coarsest),
        folder=folder,
    )


def _load_component(
    folder: Path,
    class_name: str,
    dtype: torch.dtype,
    quantization: Quantization = Quantization.OFF,
) -> "torch.nn.Module | CLIPTokenizer":
    import diffusers
    import transformers

    if class_name == TOKENIZER:
        return _load_tokenizer(folder)
    library = "transformers" if class_name.startswith("CLIP") else "diffusers"
    model_files.read_json(folder / "config.json")
    prefer_half = dtype == torch.float16
    weights = model_files.weights_of(folder, library, prefer_half=prefer_half)
    model_class: Any = getattr(transformers if library == "transformers" else diffusers, class_name)
    try:
        component = model_class.from_pretrained(
            folder,
            dtype=dtype,
            variant=weights.variant,
            use_safetensors=weights.use_safetensors,
            local_files_only=True,
            **reduced_weights.quantized(quantization, dtype),
        )
    except (RuntimeError, ValueError, KeyError, OSError, UnpicklingError) as error:
        if is_out_of_memory(error) or (isinstance(error, OSError) and error.errno is not None):
            raise  # not the model's fault
        raise ModelError(
            f'"{folder}" could not be loaded: its weights do not fit its configuration, or the'
            f" file is damaged ({first_line(error)}). Download the model again."
        ) from error
    return component.eval()


def _load_tokenizer(folder: Path) -> "CLIPTokenizer":
    import transformers

    check_tokenizer(folder)
    try:
        return transformers.CLIPTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f'The tokenizer in "{folder}" could not be loaded ({first_line(error)}).'
            " Download the model again."
        ) from error


def _assemble(
    kind: str, components: dict[str, Any], index: Mapping[str, Any]
) -> "DiffusionPipeline":
    import diffusers

    # A neutral scheduler: the pipeline's constructor rewrites older configurations with a
    # deprecation warning, and each job sets its own.
    scheduler = diffusers.DDIMScheduler(steps_offset=1, clip_sample=False)
    if kind == "sd":
        return diffusers.StableDiffusionPipeline(
            **components,
            scheduler=scheduler,
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
    zeros = bool(index.get("force_zeros_for_empty_prompt", True))
    return diffusers.StableDiffusionXLPipeline(
        **components,
        scheduler=scheduler,
        force_zeros_for_empty_prompt=zeros,
        add_watermarker=False,
    )
