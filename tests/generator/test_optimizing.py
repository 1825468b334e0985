# SPDX-License-Identifier: GPL-3.0-or-later
"""Optimizations on every family of model: taken back exactly, and any two of them together.

The device passes as an NVIDIA GPU with everything installed, and computes on the CPU.
"""

import copy
import itertools
import random
from dataclasses import replace

import pytest
import torch
from fakes import families
from tessera.generator_process import devices, optimizing
from tessera.generator_process.optimizing import compiling, resolving
from tessera.generator_process.pipelines import LoadedModel
from tessera.optimizations import (
    Attention,
    CpuOffload,
    Environment,
    HalfPrecision,
    Optimizations,
    StepCache,
    VaeTiling,
)
from torch import nn

NONE = Optimizations(automatic=False, half_precision=HalfPrecision.OFF, vae_slicing=False)

CHOICES = [
    {"attention": Attention.SLICED, "attention_slice_size": 1},
    {"attention": Attention.CLASSIC},
    {"tf32": True},
    {"cudnn_benchmark": True},
    {"channels_last_memory_format": True},
    {"cpu_offload": CpuOffload.MODEL},
    {"cpu_offload": CpuOffload.SUBMODULE},
    {"cpu_offload": CpuOffload.GROUP},
    {"vae_slicing": True},
    {"vae_tiling": VaeTiling.EXACT, "vae_tile_size": 64},
    {"vae_tiling": VaeTiling.FAST, "vae_tile_size": 64, "vae_tile_blend": 16},
    {"torch_compile": True},
    {"step_cache": StepCache.FIRST_BLOCK},
    {"step_cache": StepCache.TAYLORSEER},
]

TOLERANCE = 1e-4
"""Largest difference of a value in 0..1: none of these options changes more than the order in which
numbers are added. A cache takes nothing over in the first steps, which are all that is run."""


@pytest.fixture(scope="module")
def pipelines():
    made = {name: make() for name, make in families.MAKERS.items()}
    for pipeline in made.values():
        pipeline.set_progress_bar_config(disable=True)
    return made


@pytest.fixture(params=sorted(families.MAKERS))
def pipeline(request, pipelines):
    """A tiny pipeline of each family. Tests copy it before they change it."""
    return pipelines[request.param]


@pytest.fixture(autouse=True)
def compile_quickly(monkeypatch):
    """Trace as usual, and run what was traced without a compiler for the machine."""

    def compile_block(block):
        block._compiled_call_impl = torch.compile(block._call_impl, backend="eager")

    monkeypatch.setattr(nn.Module, "compile", compile_block)


def _model(pipeline, companions=(), known=None, kind="cuda") -> LoadedModel:
    known = known or Environment(
        probed=True,
        compute_capability=(8, 6),
        packages=(("accelerate", "1"), ("triton", "3")),
        has_compiler=True,
    )
    device = devices.Device(kind=kind, torch_device=torch.device("cpu"), name="Test", known=known)
    return LoadedModel(
        name="tiny",
        kind="test",
        pipeline=pipeline,
        scheduler_config={},
        device=device,
        dtype=torch.float32,
        latent_channels=4,
        latent_factor=2,
        step_px=8,
        unit_px=8,
        companions=companions,
    )


def _state(model: LoadedModel) -> dict[str, object]:
    """Everything about a model that an option could change."""
    state: dict[str, object] = {
        "tf32": torch.backends.cuda.matmul.fp32_precision,
        "benchmark": torch.backends.cudnn.benchmark,
    }
    for name, network in optimizing.target_of(model).networks().items():
        for path, module in network.named_modules():
            own = {key: _value(value) for key, value in vars(module).items() if key[:1] != "_"}
            private = {key for key in vars(module) if key not in _KEPT_BY_TORCH}
            registry = vars(module).get("_diffusers_hook")
            if registry is not None and not registry.hooks:  # from any run of a transformer
                private.remove("_diffusers_hook")
            state[f"{name}.{path}"] = (own, private)
        for path, weight in (*network.named_parameters(), *network.named_buffers()):
            state[f"{name}.{path}:"] = (weight.dtype, weight.device, weight.stride(), type(weight))
            state[f"{name}.{path}="] = weight.detach().clone()
    return state


_KEPT_BY_TORCH = set(vars(nn.Module())) | {"_internal_dict"}


def _value(value: object) -> object:
    if isinstance(value, int | float | str | bool | None | tuple | torch.dtype):
        return value
    if type(value).__name__.endswith("Processor2_0") or "Attn" in type(value).__name__:
        return (type(value).__name__, repr(vars(value)))
    return type(value).__name__


def _same(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """Return what differs."""
    different = list(one.keys() ^ other.keys())
    for key in one.keys() & other.keys():
        left, right = one[key], other[key]
        equal = torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
        if not equal:
            different.append(f"{key}: {left} != {right}")
    return different


def _random_set(numbers: random.Random) -> Optimizations:
    wanted = NONE
    for choice in numbers.sample(CHOICES, numbers.randint(0, 5)):
        wanted = replace(wanted, **choice)
    return wanted


def test_any_sequence_ends_as_the_last_set_alone(pipeline):
    """The property that everything rests on, over random sequences with runs in between."""
    numbers = random.Random(0)
    fresh = copy.deepcopy(pipeline)
    used = _model(copy.deepcopy(pipeline))
    for round_ in range(8):
        wanted = _random_set(numbers)
        optimizing.apply(used, wanted)
        if round_ % 4 == 1:
            with torch.inference_mode(), optimizing.parking(used):
                families.run(used.pipeline, steps=1)
        optimizing.apply(used, wanted)  # twice is as once
        alone = _model(copy.deepcopy(fresh))
        optimizing.apply(alone, wanted)
        assert _same(_state(used), _state(alone)) == [], wanted
        optimizing.apply(alone, NONE)  # the numeric modes are the process's
        optimizing.apply(used, wanted)
    optimizing.apply(used, NONE)
    assert _same(_state(used), _state(_model(fresh))) == []


def test_the_state_sees_each_option(pipeline):
    """The test above could not fail for an option that changes nothing it looks at."""
    model = _model(copy.deepcopy(pipeline))
    plain = _state(model)
    for choice in CHOICES:
        wanted = replace(NONE, **choice)
        effect = optimizing.apply(model, wanted)
        if not effect.skipped:
            assert _same(plain, _state(model)), choice
    optimizing.apply(model, NONE)
    assert _same(plain, _state(model)) == []


@pytest.mark.slow
def test_any_two_options_work_together_or_one_is_refused(pipeline):
    model = _model(copy.deepcopy(pipeline))
    with torch.inference_mode():
        plain = families.run(model.pipeline, steps=1)
    refused: set[str] = set()
    for one, other in itertools.combinations(CHOICES, 2):
        if one.keys() & other.keys():
            continue  # two choices of one option
        wanted = replace(NONE, **one, **other)
        effect = optimizing.apply(model, wanted)
        refused.update(effect.skipped)
        active = set(resolving.active_names(effect.options))
        for name, value in (one | other).items():
            if getattr(effect.options, name) != value:
                label = Optimizations.metadata_of(name)["label"]
                assert any(label in reason for reason in effect.skipped), (one, other)
        for left, right in itertools.combinations(active, 2):
            assert not resolving.conflict(left, right)
        with torch.inference_mode(), optimizing.parking(model):
            image = families.run(model.pipeline, steps=1)
        assert (image - plain).abs().max() < TOLERANCE, (one, other)
    assert all(reason.endswith(".") for reason in refused)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"cpu_offload": CpuOffload.SUBMODULE, "torch_compile": True},
            "Compile is not used: it cannot be combined with CPU Offload (Submodule).",
        ),
        (
            {"step_cache": StepCache.FIRST_BLOCK, "cfg_end": 0.5},
            "Step Cache (First Block) is not used: it cannot be combined with Guidance End.",
        ),
        (
            {"tf32": True, "attention": Attention.XFORMERS},
            "Attention (xFormers) needs the package xformers, which is not installed.",
        ),
    ],
)
def test_what_is_refused_is_said(pipelines, settings, reason):
    model = _model(copy.deepcopy(pipelines["sd3"]))
    effect = optimizing.apply(model, replace(NONE, **settings))
    assert reason in effect.skipped
    assert effect.options.attention is Attention.SDP
    optimizing.apply(model, NONE)


def test_a_failure_halfway_leaves_a_model_that_works(pipelines, monkeypatch):
    model = _model(copy.deepcopy(pipelines["unet"]))
    plain = _state(model)

    def fail(target, options, undo):
        raise torch.OutOfMemoryError("out of memory")

    wanted = replace(NONE, cpu_offload=CpuOffload.MODEL, attention=Attention.SLICED)
    with monkeypatch.context() as patch, pytest.raises(torch.OutOfMemoryError):
        patch.setattr(compiling, "apply", fail)
        optimizing.apply(model, wanted)
    optimizing.apply(model, NONE)
    assert _same(plain, _state(model)) == []


def test_attention_of_an_adapter_is_kept_and_that_is_said(pipelines):
    """Bug report P053: sliced attention broke image-prompt adapters."""
    model = _model(copy.deepcopy(pipelines["unet"]))

    class AdapterProcessor:
        pass

    layers = [m for m in model.pipeline.unet.modules() if hasattr(m, "processor")]
    mine = AdapterProcessor()
    layers[0].processor = mine
    effect = optimizing.apply(model, replace(NONE, attention=Attention.SLICED))
    assert layers[0].processor is mine
    assert type(layers[1].processor).__name__ == "SlicedAttnProcessor"
    assert effect.skipped == (
        f"Attention (Sliced) is not used in 1 of {len(layers)} attention layers of unet, which an"
        " adapter has changed.",
    )
    layers[1].processor = mine  # an adapter comes while the option is on
    optimizing.apply(model, NONE)
    assert layers[1].processor is mine
    assert type(layers[2].processor).__name__ == "AttnProcessor2_0"


@pytest.mark.parametrize(("size", "heads"), [(0, 2), (1, 1), (2, 2), (64, 4)])
def test_slices_are_heads(pipelines, size, heads):
    model = _model(copy.deepcopy(pipelines["unet"]))
    layer = next(m for m in model.pipeline.unet.modules() if hasattr(m, "processor"))
    assert layer.heads == 4
    optimizing.apply(model, replace(NONE, attention=Attention.SLICED, attention_slice_size=size))
    assert layer.processor.slice_size == heads


def test_a_transformer_that_dispatches_names_the_backend(pipelines):
    """Without changing the default of the whole process, as diffusers' own method does."""
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry

    known = Environment(
        probed=True,
        compute_capability=(8, 6),
        packages=(("flash_attn", "2.8"), ("accelerate", "1")),
    )
    before = _AttentionBackendRegistry.get_active_backend()
    half = {"half_precision": HalfPrecision.BFLOAT16, "attention": Attention.FLASH}
    model = _model(copy.deepcopy(pipelines["flux"]), known=known)
    processors = [
        m.processor for m in model.pipeline.transformer.modules() if hasattr(m, "processor")
    ]
    assert optimizing.apply(model, replace(NONE, **half)).skipped == ()
    assert {processor._attention_backend.value for processor in processors} == {"flash"}
    optimizing.apply(model, NONE)
    assert not any("_attention_backend" in vars(processor) for processor in processors)
    assert _AttentionBackendRegistry.get_active_backend() == before
    sd3 = _model(copy.deepcopy(pipelines["sd3"]), known=known)
    assert optimizing.apply(sd3, replace(NONE, **half)).skipped == (
        "Attention (FlashAttention) is not used: the attention of this model's transformer is"
        " fixed.",
    )


def test_a_refiner_shares_what_it_shares(pipelines):
    """Two pipelines with one VAE: each network is treated once, and they take turns."""
    first = copy.deepcopy(pipelines["unet"])
    second = copy.deepcopy(pipelines["unet"])
    second.register_modules(vae=first.vae)
    model = _model(first, companions=(second,))
    plain = _state(model)
    networks = optimizing.target_of(model).networks()
    assert list(networks) == ["vae", "unet", "controlnet", "unet@1", "controlnet@1"]
    wanted = replace(
        NONE,
        cpu_offload=CpuOffload.MODEL,
        channels_last_memory_format=True,
        attention=Attention.SLICED,
    )
    optimizing.apply(model, wanted)
    with torch.inference_mode(), optimizing.parking(model):
        images = [families.run(one, steps=1) for one in (first, second)]
    assert (images[0] - images[1]).abs().max() < TOLERANCE
    optimizing.apply(model, NONE)
    assert _same(plain, _state(model)) == []


def test_seamless_edges_reach_compiled_blocks(pipelines):
    from tessera.generator_process.messages import SeamlessAxes
    from tessera.generator_process.seamless import seamless

    model = _model(copy.deepcopy(pipelines["unet"]))
    images = {}
    for compiled in (False, True):
        optimizing.apply(model, replace(NONE, torch_compile=compiled))
        for axes in (SeamlessAxes.OFF, SeamlessAxes.BOTH, SeamlessAxes.OFF):
            networks = (model.pipeline.unet, model.pipeline.vae)
            with torch.inference_mode(), seamless(networks, axes):
                images[compiled, axes] = families.run(model.pipeline, steps=1)
    for axes in (SeamlessAxes.OFF, SeamlessAxes.BOTH):
        assert (images[True, axes] - images[False, axes]).abs().max() < TOLERANCE
    assert not torch.equal(images[False, SeamlessAxes.OFF], images[False, SeamlessAxes.BOTH])
    optimizing.apply(model, NONE)
