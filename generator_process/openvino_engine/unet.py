# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the pipeline where the UNet was. Side: generator."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..messages import SeamlessAxes
from . import cache, conversion, fingerprint, torch_weights
from .availability import EngineDevice, EngineError, import_openvino, installed_version
from .watch import PREPARING, Watch

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel
    from diffusers.models.unets.unet_2d_condition import UNet2DConditionOutput
    from numpy.typing import NDArray

    from ..pipelines import LoadedModel

_log = logging.getLogger(__name__)

_COMPILED_FOLDER = "compiled"


class OpenVinoUNet:
    """Takes and gives what the UNet does, and computes with OpenVINO.

    Everything that is not declared here, such as `add_embedding`, is the UNet's own. Its weights
    are given up once they are not needed and can be loaded again.

    Args:
        model: Whose UNet it replaces.
        device: What computes.
        precision: What it computes in: "f32", "bf16" or "f16".
    """

    def __init__(self, model: "LoadedModel", device: EngineDevice, precision: str) -> None:
        self.original: UNet2DConditionModel = model.pipeline.unet
        self.engine_device = device
        self.precision = precision
        self.watch = Watch()
        self.dtype: torch.dtype = self.original.dtype
        self.device: torch.device = model.device.torch_device
        self.config: Any = self.original.config
        self._model = model
        self._names = conversion.input_names(self.original)
        self._weights = fingerprint.of_module(self.original)
        self._place = Path()
        self._axes: SeamlessAxes | None = None
        self._shapes: tuple[tuple[int, ...], ...] = ()
        self._network: Any = None

    @property
    def description(self) -> str:
        """The engine with its version, device and precision, for the user."""
        device = self.engine_device
        return f"OpenVINO {installed_version()} on {device.full_name}, {self.precision}"

    @property
    def axes(self) -> SeamlessAxes | None:
        """The axes that it is prepared for, or None if for none yet."""
        return self._axes

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  as the UNet's own are
        if name == "original":  # not set yet
            raise AttributeError(name)
        return getattr(self.original, name)

    def prepare(self, axes: SeamlessAxes) -> None:
        """Convert and compile for these axes, unless it is so already.

        Raises:
            EngineError: It failed.
            ModelError: The UNet has layers that cannot be made seamless.
            CancelledError: The job is to stop.
        """
        if axes is self._axes:
            return
        self._forget()
        self._place = self._converted(axes)
        self._axes = axes
        torch_weights.give_up(self._model, self.original)
        if self.engine_device.takes_any_size:
            self._compile(())

    def restore(self) -> None:
        """Give the UNet its weights back, and forget the network.

        Raises:
            ModelError: The model's files have changed since it was loaded.
        """
        self._forget()
        torch_weights.take_back(self._model, self.original, self._weights)

    @contextmanager
    def seamless(self, axes: SeamlessAxes) -> Iterator[None]:
        """Within this context, what it makes continues on the opposite edge along these axes."""
        self.prepare(axes)
        yield

    def __call__(
        self,
        sample: torch.Tensor,
        timestep: torch.Tensor | float,
        encoder_hidden_states: torch.Tensor,
        timestep_cond: torch.Tensor | None = None,
        added_cond_kwargs: Mapping[str, torch.Tensor] | None = None,
        *,
        return_dict: bool = True,
        **others: object,
    ) -> "UNet2DConditionOutput | tuple[torch.Tensor]":
        """Predict as the UNet does. All tensors may have any type and be on any device.

        Args:
            sample: (batch, channels, height, width).
            timestep: One for all, or one for each of the batch.
            encoder_hidden_states: (batch, tokens, features).
            timestep_cond: (batch, features), for models distilled to follow a guidance scale.
            added_cond_kwargs: For SDXL, `text_embeds` (batch, features), `time_ids` (batch, 6).
            return_dict: Whether to return diffusers' output object instead of a tuple.
            others: Further inputs of diffusers' UNet, which have to be None or empty.

        Raises:
            EngineError: There is an input that the converted network does not have.
        """
        given = {
            "sample": sample,
            "timestep": torch.as_tensor(timestep).expand(sample.shape[0]),
            "encoder_hidden_states": encoder_hidden_states,
            "timestep_cond": timestep_cond,
            **(added_cond_kwargs or {}),
        }
        self._refuse({**given, **others})
        taken = conversion.embedded(self.original, {name: given[name] for name in self._names})
        inputs = [_to_numpy(taken[name]) for name in self._names]
        if self._axes is None:
            self.prepare(SeamlessAxes.OFF)
        if not self.engine_device.takes_any_size:
            self._compile(tuple(value.shape for value in inputs))
        output = torch.from_numpy(self._network(inputs)[0]).to(sample.device, sample.dtype)
        if not return_dict:
            return (output,)
        from diffusers.models.unets.unet_2d_condition import UNet2DConditionOutput

        return UNet2DConditionOutput(sample=output)

    forward = __call__

    def _refuse(self, given: Mapping[str, Any]) -> None:
        for name, value in given.items():
            used = value is not None and not (isinstance(value, Mapping) and not value)
            if used and name not in self._names:
                raise EngineError(
                    f"The OpenVINO engine cannot take {name}. Set Engine to PyTorch for this job."
                )
        for name in self._names:
            if given.get(name) is None:
                raise EngineError(f"The OpenVINO engine needs {name}, which was not given.")

    def _converted(self, axes: SeamlessAxes) -> Path:
        key = conversion.key_of(self._weights, self.original, axes)
        found = cache.find(key)
        if found is not None:
            return found
        torch_weights.take_back(self._model, self.original, self._weights)
        return conversion.convert(key, self.original, axes, self.watch)

    def _compile(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        if self._network is not None and shapes == self._shapes:
            return
        self.watch.begin(PREPARING)
        self._network = None
        core: Any = import_openvino().Core()
        try:
            network = core.read_model(self._place / cache.MODEL)
            if shapes:
                network.reshape(dict(zip(network.inputs, map(list, shapes), strict=True)))
            self._network = core.compile_model(network, self.engine_device.name, self._settings())
        except RuntimeError as error:
            _log.warning("the network could not be compiled", exc_info=True)
            raise EngineError(
                f"OpenVINO could not prepare the model for {self.engine_device.full_name}; the log"
                " says why. Set Engine to PyTorch."
            ) from error
        self._shapes = shapes

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": self.precision,
        }
        if self.engine_device.kind == "CPU":
            return settings | {"INFERENCE_NUM_THREADS": torch.get_num_threads()}
        # Compiling takes minutes there, where it takes seconds on a CPU.
        return settings | {"CACHE_DIR": str(self._place / _COMPILED_FOLDER)}

    def _forget(self) -> None:
        self._axes = None
        self._network = None


def _to_numpy(value: torch.Tensor) -> "NDArray[Any]":
    return value.detach().to("cpu", torch.float32).contiguous().numpy()
