# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole table of options, choices, devices and machines, written out by hand."""

import pytest
from tessera.optimization_rules import automatic_attention, automatic_precision
from tessera.optimizations import (
    DEVICES,
    Attention,
    Environment,
    HalfPrecision,
    Optimizations,
)

PACKAGES = (
    ("accelerate", "1.15.0"),
    ("triton", "3.5.0"),
    ("xformers", "0.0.35"),
    ("torchao", "0.18.0"),
    ("bitsandbytes", "0.50.2"),
    ("openvino", "2026.4.1"),
    ("flash_attn", "2.8.3"),
    ("sageattention", "2.2.0"),
)

MACHINES = {
    "RTX": ("cuda", {"compute_capability": (8, 6), "packages": PACKAGES, "os": "linux"}),
    "GTX": (
        "cuda",
        {
            "compute_capability": (7, 5),
            "device_name": "NVIDIA GeForce GTX 1660 Ti",
            "packages": PACKAGES[:1],
            "os": "windows",
        },
    ),
    "ROCm": ("cuda", {"is_rocm": True, "packages": PACKAGES[:4], "os": "linux"}),
    "Intel": ("xpu", {"packages": PACKAGES, "os": "linux"}),
    "Apple": ("mps", {"packages": PACKAGES, "os": "macos", "os_version": (15, 1)}),
    "DirectML": (
        "dml",
        {
            "packages": PACKAGES[:1],
            "torch_version": "1.13.1",
            "has_sdp": False,
            "os": "windows",
        },
    ),
    "Xeon": (
        "cpu",
        {
            "packages": PACKAGES,
            "cpu_flags": ("avx512_bf16",),
            "has_compiler": True,
            "os": "linux",
        },
    ),
    "PC": ("cpu", {"packages": PACKAGES[:1], "os": "windows"}),
}

# "+" where the kind of device supports it (left), and where it can be used on the machine (right).
TABLE = """
                                   cuda mps dml xpu cpu   RTX GTX ROCm Intel Apple DirectML Xeon PC
automatic                          +    +   +   +   +     +   +   +    +     +     +        +    +
engine                             +    +   +   +   +     +   +   +    +     +     +        +    +
engine.torch                       +    +   +   +   +     +   +   +    +     +     +        +    +
engine.openvino                    -    -   -   +   +     -   -   -    +     -     -        +    -
attention                          +    +   +   +   +     +   +   +    +     +     +        +    +
attention.automatic                +    +   +   +   +     +   +   +    +     +     +        +    +
attention.sdp                      +    +   +   +   +     +   +   +    +     +     -        +    +
attention.xformers                 +    -   -   -   -     +   -   -    -     -     -        -    -
attention.sliced                   +    -   +   +   +     +   +   +    +     -     +        +    +
attention.classic                  +    -   +   +   +     +   +   +    +     -     +        +    +
attention.flash                    +    -   -   -   -     +   -   -    -     -     -        -    -
attention.sage                     +    -   -   -   -     +   -   -    -     -     -        -    -
attention_slice_size               +    -   +   +   +     +   +   +    +     -     +        +    +
half_precision                     +    +   +   +   +     +   -   +    +     +     +        +    -
half_precision.automatic           +    +   +   +   +     +   +   +    +     +     +        +    +
half_precision.float16             +    +   +   +   -     +   -   +    +     +     +        -    -
half_precision.bfloat16            +    +   -   +   +     +   -   +    +     +     -        +    -
half_precision.off                 +    +   +   +   +     +   +   +    +     +     +        +    +
tf32                               +    -   -   -   -     +   -   -    -     -     -        -    -
cudnn_benchmark                    +    -   -   -   -     +   +   +    -     -     -        -    -
channels_last_memory_format        +    -   -   +   +     +   +   +    +     -     -        +    +
cpu_offload                        +    -   +   +   -     +   +   +    +     -     +        -    -
cpu_offload.off                    +    -   +   +   -     +   +   +    +     -     +        -    -
cpu_offload.model                  +    -   +   +   -     +   +   +    +     -     +        -    -
cpu_offload.submodule              +    -   +   +   -     +   +   +    +     -     +        -    -
cpu_offload.group                  +    -   -   +   -     +   +   +    +     -     -        -    -
vae_slicing                        +    +   +   +   +     +   +   +    +     +     +        +    +
vae_tiling                         +    +   +   +   +     +   +   +    +     +     +        +    +
vae_tiling.off                     +    +   +   +   +     +   +   +    +     +     +        +    +
vae_tiling.fast                    +    +   +   +   +     +   +   +    +     +     +        +    +
vae_tiling.exact                   +    +   +   +   +     +   +   +    +     +     +        +    +
vae_tile_size                      +    +   +   +   +     +   +   +    +     +     +        +    +
vae_tile_blend                     +    +   +   +   +     +   +   +    +     +     +        +    +
batch_size                         +    -   +   +   +     +   +   +    +     -     +        +    +
cfg_end                            +    +   +   +   +     +   +   +    +     +     +        +    +
torch_compile                      +    -   -   +   +     +   -   +    +     -     -        +    -
layerwise_casting                  +    -   -   +   +     +   +   +    +     -     -        +    +
quantization                       +    +   -   +   +     +   -   +    +     +     -        +    -
quantization.off                   +    +   -   +   +     +   +   +    +     +     -        +    +
quantization.bitsandbytes_8bit     +    -   -   +   -     +   -   -    +     -     -        -    -
quantization.bitsandbytes_4bit     +    +   -   +   -     +   -   -    +     +     -        -    -
quantization.torchao_int8          +    -   -   +   +     +   -   +    +     -     -        +    -
step_cache                         +    +   +   +   +     +   +   +    +     +     +        +    +
step_cache.off                     +    +   +   +   +     +   +   +    +     +     +        +    +
step_cache.first_block             +    +   +   +   +     +   +   +    +     +     +        +    +
step_cache.taylorseer              +    +   +   +   +     +   +   +    +     +     +        +    +
cpu_only                           +    +   +   +   -     +   +   +    +     +     +        -    -
"""

ROWS = [line.split() for line in TABLE.strip().splitlines()[1:]]
COLUMNS = TABLE.split()[: len(DEVICES) + len(MACHINES)]


def _machine(name: str) -> tuple[str, Environment]:
    device, known = MACHINES[name]
    return device, Environment(probed=True, **known)


def test_the_table_has_every_option_and_every_machine():
    assert [*DEVICES, *MACHINES] == COLUMNS
    named = [row[0] for row in ROWS]
    options = [name for name in named if "." not in name]
    assert options == list(Optimizations.__dataclass_fields__)
    assert named == [name for one in options for name in (one, *Optimizations.choices_of(one))]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_where_an_option_applies(row):
    name, cells = row[0], row[1:]
    found = ["+" if Optimizations.device_supports(name, device) else "-" for device in DEVICES]
    for machine in MACHINES:
        device, environment = _machine(machine)
        usable = Optimizations.can_use(name, device, environment)
        reason = Optimizations.why_not(name, device, environment)
        assert usable is not bool(reason)
        assert not reason or reason[0].isupper() or reason.startswith("cuDNN")
        assert not reason or reason[-1] == "."
        assert usable <= Optimizations.device_supports(name, device)
        found.append("+" if usable else "-")
    assert dict(zip(COLUMNS, found, strict=True)) == dict(zip(COLUMNS, cells, strict=True))


def test_every_speed_option_shows_on_cuda():
    """From the first founding document: most of them were not visible there."""
    speed = [
        name
        for name in Optimizations.__dataclass_fields__
        if Optimizations.metadata_of(name)["saves"] == "speed"
    ]
    assert speed == [
        "engine",
        "attention",
        "half_precision",
        "tf32",
        "cudnn_benchmark",
        "channels_last_memory_format",
        "batch_size",
        "cfg_end",
        "torch_compile",
        "step_cache",
    ]
    device, environment = _machine("RTX")
    assert set(speed) <= set(Optimizations.options_for(device, environment))


def test_submodule_offload_is_not_offered_on_macos():
    """From the first founding document: it was wrongly visible there."""
    assert not Optimizations.device_supports("cpu_offload.submodule", "mps")
    assert Optimizations.why_not("cpu_offload.submodule", *_machine("Apple")) == (
        "CPU Offload (Submodule) is not available on an Apple GPU."
    )
    mac = Environment(probed=True, os="macos")
    for device in ("mps", "cpu"):
        assert not Optimizations.can_use("cpu_offload.submodule", device, mac)


@pytest.mark.parametrize(
    ("device", "known", "attention"),
    [
        ("cuda", {}, Attention.SDP),
        ("mps", {}, Attention.SDP),
        ("xpu", {}, Attention.SDP),
        ("cpu", {"torch_version": "2.13.0+cpu"}, Attention.SDP),
        ("dml", {"torch_version": "2.4.1"}, Attention.SDP),
        ("dml", {"torch_version": "1.13.1"}, Attention.SLICED),
        ("dml", {"torch_version": "2.0.0", "has_sdp": False}, Attention.SLICED),
    ],
)
def test_sdp_is_the_default_where_torch_has_it(device, known, attention):
    assert automatic_attention(device, Environment(probed=True, **known)) is attention


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, "needs the package xformers, which is not installed."),
        (
            {"packages": (("xformers", "0.0.20"),), "defects": (("xformers", "fails"),)},
            "cannot be used: xformers 0.0.20 fails.",
        ),
        ({"packages": (("xformers", "0.0.35"),), "is_rocm": True}, "does not work on AMD GPUs."),
        ({"packages": (("xformers", "0.0.35"),)}, ""),
    ],
)
def test_xformers_is_offered_where_it_is_installed_and_fits(known, reason):
    """Bug report P057."""
    said = Optimizations.why_not("attention.xformers", "cuda", Environment(probed=True, **known))
    assert said == (f"Attention (xFormers) {reason}" if reason else "")


def test_before_the_generator_has_started_nothing_is_promised():
    assert Optimizations.why_not("attention.xformers", "cuda") == (
        "Whether Attention (xFormers) works is known once the generator has started."
    )
    assert Optimizations.can_use("attention.sdp", "cuda")
    assert Optimizations.can_use("cpu_offload.model", "cuda")


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("NVIDIA GeForce GTX 1630", True),
        ("NVIDIA GeForce GTX 1650", True),
        ("NVIDIA GeForce GTX 1660 SUPER", True),
        ("NVIDIA T600 Laptop GPU", True),
        ("NVIDIA GeForce MX450", True),
        ("NVIDIA GeForce GTX 1060", False),
        ("NVIDIA GeForce RTX 2060", False),
        ("NVIDIA GeForce RTX 4090", False),
        ("Tesla T4", False),
    ],
)
def test_half_precision_is_off_for_gtx_16_cards(name, broken):
    """Bug report P046."""
    card = Environment(probed=True, device_name=name)
    assert Optimizations.can_use("half_precision", "cuda", card) is not broken
    chosen = automatic_precision("cuda", card, "unet")
    assert chosen is (HalfPrecision.OFF if broken else HalfPrecision.FLOAT16)
    if broken:
        assert name in Optimizations.why_not("half_precision.float16", "cuda", card)


@pytest.mark.parametrize(
    ("machine", "unet", "transformer"),
    [
        ("RTX", "float16", "bfloat16"),
        ("GTX", "off", "off"),
        ("ROCm", "float16", "bfloat16"),
        ("Intel", "float16", "bfloat16"),
        ("Apple", "float16", "bfloat16"),
        ("DirectML", "float16", "float16"),
        ("Xeon", "bfloat16", "bfloat16"),
        ("PC", "off", "off"),  # P045
    ],
)
def test_the_precision_that_is_chosen(machine, unet, transformer):
    device, environment = _machine(machine)
    found = [
        automatic_precision(device, environment, kind).value for kind in ("unet", "transformer")
    ]
    assert found == [unet, transformer]


def test_an_rtx_20_card_computes_transformers_in_full_precision():
    turing = Environment(probed=True, compute_capability=(7, 5), device_name="RTX 2060")
    assert automatic_precision("cuda", turing, "unet") is HalfPrecision.FLOAT16
    assert automatic_precision("cuda", turing, "transformer") is HalfPrecision.OFF


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("step_cache.first_block", "unet", "does not work with models that have a UNet"),
        ("attention.flash", "unet", "does not work with models that have a UNet"),
        ("attention.sliced", "transformer", "does not work with transformer models"),
        ("channels_last_memory_format", "transformer", "does not work with transformer models"),
        ("attention.sdp", "transformer", ""),
        ("attention.sdp", "unet", ""),
    ],
)
def test_the_model_is_judged_too(name, kind, reason):
    device, environment = _machine("RTX")
    said = Optimizations.why_not(name, device, environment, model_kind=kind)
    assert reason in said
    assert bool(reason) is bool(said)


@pytest.mark.parametrize(
    ("version", "old"), [("1.0.6", True), ("2.1.0", True), ("2.1.1", False), ("2.10", False)]
)
def test_a_package_may_be_too_old(version, old):
    environment = Environment(
        probed=True, compute_capability=(8, 0), packages=(("sageattention", version),)
    )
    said = Optimizations.why_not("attention.sage", "cuda", environment)
    wanted = f"Attention (SageAttention) needs sageattention 2.1.1 or newer, and {version} is"
    assert said == (f"{wanted} installed." if old else "")
