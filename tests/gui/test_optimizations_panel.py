"""What the panel of the optimizations lays out on which device: all from literal tables."""

from types import SimpleNamespace

import bpy
import pytest
from fakes.layout import RecordingLayout, texts
from fakes.machines import MACHINES
from tessera import session
from tessera.generator_process.messages import Finished, Ready
from tessera.optimization_machine import machine_of
from tessera.panels import optimizations
from tessera.panels.optimizations import TESSERA_PT_optimizations_image

SPEED = [
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
MEMORY = [
    "attention_slice_size",
    "cpu_offload",
    "vae_slicing",
    "vae_tiling",
    "vae_tile_size",
    "vae_tile_blend",
    "layerwise_casting",
    "quantization",
    "cpu_only",
]

HIDDEN = {
    "RTX 3080": set(),
    "GTX 1660": set(),
    "RX 7900": set(),
    "M2": {
        "tf32",
        "cudnn_benchmark",
        "channels_last_memory_format",
        "batch_size",
        "torch_compile",
        "attention_slice_size",
        "cpu_offload",
        "layerwise_casting",
    },
    "DirectML": {
        "tf32",
        "cudnn_benchmark",
        "channels_last_memory_format",
        "torch_compile",
        "layerwise_casting",
        "quantization",
    },
    "Arc A770": {"tf32", "cudnn_benchmark"},
    "Xeon": {"tf32", "cudnn_benchmark", "cpu_offload", "cpu_only"},
    "old CPU": {"tf32", "cudnn_benchmark", "cpu_offload", "cpu_only"},
}

_NO_BITSANDBYTES = (
    "Quantization (8 Bit (bitsandbytes)) needs the package bitsandbytes, which is not installed."
)
_NO_TORCHAO = "Quantization (8 Bit (torchao)) needs the package torchao, which is not installed."

GREY = {
    "RTX 3080": {"quantization": _NO_BITSANDBYTES},
    "GTX 1660": {
        "half_precision": "Half Precision (Float16) gives black images on NVIDIA GeForce GTX 1660.",
        "tf32": "TF32 needs an NVIDIA GPU from the RTX 30 series on, and this is NVIDIA GeForce GTX"
        " 1660.",
        "torch_compile": "Compile needs the package triton, which is not installed.",
        "quantization": _NO_BITSANDBYTES,
    },
    "RX 7900": {"tf32": "TF32 does not work on AMD GPUs.", "quantization": _NO_BITSANDBYTES},
    "M2": {
        "quantization": "Quantization (4 Bit (bitsandbytes)) needs the package bitsandbytes, which"
        " is not installed."
    },
    "DirectML": {},
    "Arc A770": {"quantization": _NO_BITSANDBYTES},
    "Xeon": {"quantization": _NO_TORCHAO},
    "old CPU": {
        "half_precision": "Half Precision (BFloat16) on the CPU needs a processor with AVX512_BF16"
        " or AMX.",
        "torch_compile": "Compile on the CPU needs a C++ compiler, and none was found.",
        "quantization": _NO_TORCHAO,
    },
}

CHOICES = {
    ("RTX 3080", "engine"): (["TORCH"], set()),
    ("RTX 3080", "attention"): (
        ["AUTOMATIC", "SDP", "XFORMERS", "SLICED", "CLASSIC", "FLASH", "SAGE"],
        {"FLASH", "SAGE"},
    ),
    ("RTX 3080", "cpu_offload"): (["OFF", "MODEL", "SUBMODULE", "GROUP"], set()),
    ("GTX 1660", "attention"): (
        ["AUTOMATIC", "SDP", "XFORMERS", "SLICED", "CLASSIC", "FLASH", "SAGE"],
        {"XFORMERS", "FLASH", "SAGE"},
    ),
    ("GTX 1660", "half_precision"): (
        ["AUTOMATIC", "FLOAT16", "BFLOAT16", "OFF"],
        {"FLOAT16", "BFLOAT16"},
    ),
    ("M2", "attention"): (["AUTOMATIC", "SDP"], set()),
    ("M2", "quantization"): (["OFF", "BITSANDBYTES_4BIT"], {"BITSANDBYTES_4BIT"}),
    ("DirectML", "attention"): (["AUTOMATIC", "SDP", "SLICED", "CLASSIC"], {"SDP"}),
    ("DirectML", "half_precision"): (["AUTOMATIC", "FLOAT16", "OFF"], set()),
    ("DirectML", "cpu_offload"): (["OFF", "MODEL", "SUBMODULE"], set()),
    ("Arc A770", "engine"): (["TORCH", "OPENVINO"], set()),
    ("Xeon", "engine"): (["TORCH", "OPENVINO"], {"OPENVINO"}),
    ("Xeon", "half_precision"): (["AUTOMATIC", "BFLOAT16", "OFF"], set()),
    ("Xeon", "vae_tiling"): (["OFF", "FAST", "EXACT"], set()),
    ("old CPU", "half_precision"): (["AUTOMATIC", "BFLOAT16", "OFF"], {"BFLOAT16"}),
}

UNKNOWN = {
    "linux": set(),
    "win32": set(),
    "darwin": {"tf32", "cudnn_benchmark", "cpu_offload"},
}
"""What is hidden while only the operating system is known."""


@pytest.fixture
def group(machine_preferences):
    """The optimizations of a machine whose user wants to choose."""
    machine_preferences.optimizations.automatic = False
    return machine_preferences.optimizations


@pytest.fixture
def machine(generator, group):
    """Return a function: let the generator say that it runs on this machine."""

    def start(name):
        device, environment = MACHINES[name]
        job = session.get().submit(bpy.context.scene.tessera.to_text_to_image())
        generator.ready = Ready(
            device=device, device_name=name, versions=(), environment=environment
        )
        generator.push(Finished(job_id=job.job_id))
        session.get().wait(job)

    return start


def _draw(width=250):
    layout = RecordingLayout()
    context = SimpleNamespace(
        scene=bpy.context.scene,
        region=SimpleNamespace(width=width),
        space_data=SimpleNamespace(type="IMAGE_EDITOR", image=None),
    )
    TESSERA_PT_optimizations_image.draw(SimpleNamespace(layout=layout), context)
    return layout


def _options(layout):
    """The options that were laid out, in order: menus by the name of their option."""
    shown = [call for call in layout.calls if call[0] in ("prop", "menu")]
    return [_option(call[1]) for call in shown if call[1] != "automatic"]


def _option(name):
    return name.removeprefix("TESSERA_MT_")


def _choices(option):
    layout = RecordingLayout()
    (menu,) = [found for found in optimizations.MENUS if found.option == option]
    menu.draw(SimpleNamespace(layout=layout, option=option), None)
    return layout


@pytest.mark.parametrize("name", MACHINES)
def test_shows_what_the_device_has(machine, name):
    machine(name)
    layout = _draw()
    assert _options(layout) == [option for option in SPEED + MEMORY if option not in HIDDEN[name]]
    assert {_option(found) for found in layout.grey} == set(GREY[name])
    said = " ".join(texts(layout.calls))
    for reason in GREY[name].values():
        assert reason in said
    assert said.count(" needs ") == sum(" needs " in reason for reason in GREY[name].values())
    assert said.startswith(name)


@pytest.mark.parametrize(("name", "option"), CHOICES)
def test_a_menu_shows_the_choices_of_the_device(machine, name, option):
    machine(name)
    layout = _choices(option)
    shown, grey = CHOICES[name, option]
    assert texts(layout.calls, "prop_enum") == shown
    assert layout.grey == grey
    assert len(texts(layout.calls)) == len(grey), "a reason for each"


def test_openvino_says_why_it_cannot_be_used(machine):
    machine("Xeon")
    assert texts(_choices("engine").calls) == [
        "Engine (OpenVINO) needs the package openvino, which is not installed."
    ]


@pytest.mark.parametrize("system", UNKNOWN)
def test_before_the_generator_has_started(group, monkeypatch, system):
    machine = machine_of(None, system)
    monkeypatch.setattr(optimizations, "_machine", lambda: machine)
    layout = _draw()
    assert _options(layout) == [
        option for option in SPEED + MEMORY if option not in UNKNOWN[system]
    ]
    assert layout.grey == set()
    assert " ".join(texts(layout.calls)).startswith(
        "The device is known after the first generation"
    )


def test_groups_have_headings(machine):
    machine("RTX 3080")
    calls = [call[:2] for call in _draw().calls]
    places = [calls.index(("label", "Speed")), calls.index(("prop", "tf32"))]
    places += [calls.index(("label", "Memory")), calls.index(("prop", "vae_slicing"))]
    assert places == sorted(places)


def test_automatic_greys_what_it_chooses(machine, group):
    group.automatic = True
    machine("GTX 1660")
    layout = _draw()
    assert {_option(found) for found in layout.grey} == {*SPEED, *MEMORY} - {
        "batch_size",
        "cfg_end",
        "cpu_only",
    }
    assert texts(layout.calls) == ["GTX 1660", "Speed", "Memory", "Last Job"]


def test_on_the_cpu_only_the_cpu_counts(machine, group):
    machine("RTX 3080")
    group.cpu_only = True
    assert _options(_draw()) == [
        option for option in SPEED + MEMORY if option not in HIDDEN["Xeon"] - {"cpu_only"}
    ]


def test_a_choice_that_cannot_be_used_says_why(machine, group):
    machine("M2")
    group.attention = "XFORMERS"
    layout = _draw()
    assert ("menu", "TESSERA_MT_attention", "Attention: xFormers") in layout.calls
    said = " ".join(texts(layout.calls))
    assert "Attention (xFormers) is not available on an Apple GPU." in said


def test_what_is_set_can_be_taken_back(machine, group):
    """A file of preferences may come from another machine."""
    machine("GTX 1660")
    assert "torch_compile" in _draw().locked
    group.torch_compile, group.half_precision = True, "FLOAT16"
    layout = _draw()
    assert {_option(found) for found in layout.locked} == {"tf32", "quantization"}
    assert {_option(found) for found in layout.grey} == set(GREY["GTX 1660"])


def test_presets_are_buttons(machine, group):
    machine("RTX 3080")
    assert _presets() == {
        "AUTOMATIC": False,
        "FASTEST": False,
        "BALANCED": False,
        "SMALLEST": False,
    }
    for name in _presets():
        bpy.ops.tessera.use_preset(preset=name)
        assert [found for found, pressed in _presets().items() if pressed] == [name]


def _presets():
    buttons = [call for call in _draw().calls if call[:2] == ("operator", "tessera.use_preset")]
    return {given.preset: options["depress"] for _, _, given, options in buttons}


def test_without_preferences_there_is_the_batch_size(generator):
    """As when a script has registered Tessera. P014."""
    assert _options(_draw()) == ["batch_size"]


@pytest.mark.parametrize("width", [120, 180, 250, 600])
def test_shows_what_the_last_job_did(generator, group, width):
    applied = ("half_precision: bfloat16", "vae_tiling: exact", "vae_slicing: on", "batch_size: 2")
    skipped = ("Attention (xFormers) is not available on the CPU.",)
    notes = ("Memory ran out, so the image was decoded in tiles.",)
    job = session.get().submit(bpy.context.scene.tessera.to_text_to_image())
    end = Finished(job_id=job.job_id, applied=applied, skipped=skipped, notes=notes)
    generator.push(end)
    session.get().wait(job)
    lines = texts(_draw(width).calls)
    assert max(map(len, lines[lines.index("Last Job") :])) <= max(width / 6, 16)
    assert " ".join(lines).endswith(
        "Last Job Half Precision: BFloat16 VAE Tiling: Exact VAE Slicing Batch Size: 2"
        " Attention (xFormers) is not available on the CPU."
        " Memory ran out, so the image was decoded in tiles."
    )


def test_a_running_job_does_not_hide_the_last_one(generator, group):
    job = session.get().submit(bpy.context.scene.tessera.to_text_to_image())
    generator.push(Finished(job_id=job.job_id, applied=("something: new",)))
    session.get().wait(job)
    session.get().submit(bpy.context.scene.tessera.to_text_to_image())
    assert texts(_draw().calls)[-1] == "something: new", "a name that the panel does not know"


def test_the_preferences_show_all_but_the_batch_size(machine, group):
    machine("RTX 3080")
    layout = RecordingLayout()
    optimizations.draw_options(layout, group, width_px=600)
    assert _options(layout) == [option for option in SPEED + MEMORY if option != "batch_size"]
