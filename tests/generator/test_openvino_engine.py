# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenVINO computes what torch computes, and leaves no trace when it is taken out."""

import sys

import pytest
import torch
from fakes.micro_models import FEATURES, SHAPES, UNIT, denoise, error_of, inputs_of, micro_model
from fakes.openvino_needed import ROOT
from tessera.generator_process import openvino_engine
from tessera.generator_process.errors import CancelledError, ModelError
from tessera.generator_process.messages import SeamlessAxes
from tessera.generator_process.openvino_engine import (
    EngineError,
    OpenVinoUNet,
    Watch,
    availability,
    cache,
    conversion,
    unet,
)
from tessera.generator_process.seamless import seamless

X, Y = 3, 2
TOLERANCE = openvino_engine.tolerance_of("f32")


@pytest.fixture(autouse=True, scope="module")
def _cache_of_these_tests(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        patch.delenv(availability.DEVICE_VARIABLE, raising=False)
        yield


@pytest.fixture
def model(tmp_path):
    return micro_model(tmp_path)


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_every_kind_of_model_any_size_batch_and_prompt(kind):
    """Sizes differ from those of the conversion; 154 tokens are a prompt of two windows."""
    model = micro_model(**SHAPES[kind])
    cases = [
        {"height": 8, "width": 16},
        {"height": 16, "width": 8, "batch": 3, "tokens": 154},
        {"height": 9, "width": 13, "batch": 2},
    ]
    expected = [denoise(model, **case) for case in cases]
    original = model.pipeline.unet
    engine = openvino_engine.use_openvino(model, precision="f32", device="CPU")
    assert model.pipeline.unet is engine
    for case, wanted in zip(cases, expected, strict=True):
        found = denoise(model, **case)
        assert found.shape == wanted.shape
        assert 0 < error_of(found, wanted) < TOLERANCE
    openvino_engine.remove(model)
    assert model.pipeline.unet is original
    assert all(
        torch.equal(denoise(model, **case), wanted)
        for case, wanted in zip(cases, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("axes", "wrapped"),
    [(SeamlessAxes.X, (X,)), (SeamlessAxes.Y, (Y,)), (SeamlessAxes.BOTH, (X, Y))],
)
def test_seamless_axes(model, axes, wrapped):
    """P013: as torch with the seamless patches; and rolling the latents rolls the result."""
    with seamless((model.pipeline.unet,), axes):
        expected = denoise(model, height=4, width=8)
    openvino_engine.use_openvino(model, axes=axes, precision="f32", device="CPU")
    with seamless((model.pipeline.unet,), axes):
        found = denoise(model, height=4, width=8)
        assert error_of(found, expected) < TOLERANCE
        for axis in (X, Y):
            inputs = inputs_of(model, height=4, width=8)
            inputs["sample"] = inputs["sample"].roll(UNIT, axis)
            rolled = model.pipeline.unet(**inputs).sample
            fits = error_of(rolled, found.roll(UNIT, axis)) < TOLERANCE
            assert fits == (axis in wrapped)


def test_axes_follow_the_seamless_context(model):
    """An engine that was prepared for other axes converts again, and goes back after."""
    plain = denoise(model)
    with seamless((model.pipeline.unet,), SeamlessAxes.X):
        wrapped = denoise(model)
    assert error_of(wrapped, plain) > 100 * TOLERANCE
    openvino_engine.use_openvino(model, precision="f32", device="CPU")
    for axes, wanted in ((SeamlessAxes.X, wrapped), (SeamlessAxes.OFF, plain)):
        with seamless((model.pipeline.unet,), axes):
            assert error_of(denoise(model), wanted) < TOLERANCE


def test_weights_of_torch_are_given_up_and_come_back_bit_for_bit(model):
    """P052: there are not two networks in memory while a job runs."""
    original, expected = model.pipeline.unet, denoise(model)
    openvino_engine.use_openvino(model, device="CPU")
    assert {value.device.type for value in original.parameters()} == {"meta"}
    with torch.inference_mode():  # as tasks do
        openvino_engine.remove(model)
    assert openvino_engine.in_use(model) is None
    assert torch.equal(denoise(model), expected)
    assert not any(value.is_inference() for value in original.parameters())


def test_the_memory_format_comes_back_too(model):
    model.pipeline.unet.to(memory_format=torch.channels_last)
    expected = denoise(model)
    openvino_engine.use_openvino(model, device="CPU")
    openvino_engine.remove(model)
    assert model.pipeline.unet.conv_in.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(denoise(model), expected)


def test_weights_that_cannot_be_loaded_again_stay():
    model = micro_model()
    expected = denoise(model)
    openvino_engine.use_openvino(model, device="CPU")
    assert {value.device.type for value in model.pipeline.unet.parameters()} == {"cpu"}
    openvino_engine.remove(model)
    assert torch.equal(denoise(model), expected)


def test_files_that_changed_meanwhile_are_not_taken_for_the_same(model):
    openvino_engine.use_openvino(model, device="CPU")
    micro_model(model.folder, seed=5)
    with pytest.raises(ModelError, match="have changed since it was loaded"):
        openvino_engine.remove(model)


def test_using_it_twice_changes_nothing(model):
    first = openvino_engine.use_openvino(model, device="CPU")
    assert openvino_engine.use_openvino(model, device="CPU") is first
    assert not isinstance(first.original, OpenVinoUNet)
    openvino_engine.remove(model)
    openvino_engine.remove(model)
    assert model.pipeline.unet is first.original


def test_half_precision_weights_are_converted_exactly_and_kept(tmp_path):
    """What OpenVINO gets are the 16-bit weights; arithmetic is as exact as the engine's."""
    dtype = torch.bfloat16
    model = micro_model(tmp_path, dtype)
    before = {name: value.clone() for name, value in model.pipeline.unet.state_dict().items()}
    reference = micro_model()
    reference.pipeline.unet.load_state_dict(before)
    with torch.inference_mode():
        inputs = {name: value.float() for name, value in inputs_of(model).items()}
        expected = reference.pipeline.unet(**inputs).sample
    openvino_engine.use_openvino(model, precision="f32", device="CPU")
    found = denoise(model)
    assert found.dtype == dtype
    assert error_of(found, expected) < 2 * torch.finfo(dtype).eps
    openvino_engine.remove(model)
    after = model.pipeline.unet.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_bfloat16_where_the_processor_has_it_and_a_sentence_where_not(kind):
    """Step 321, and sizes of 321 pixels, which bfloat16 would round to 320."""
    model = micro_model(**SHAPES[kind])
    expected = denoise(model)
    device = availability.choose_device("CPU")
    if "bf16" not in device.precisions:
        assert availability.choose_precision(device) == "f32"
        with pytest.raises(EngineError, match=r"cannot compute in bf16\. Set Half Precision"):
            openvino_engine.use_openvino(model, precision="bf16", device="CPU")
        assert openvino_engine.in_use(model) is None
        return
    assert openvino_engine.use_openvino(model, device="CPU").precision == "bf16"
    assert error_of(denoise(model), expected) < openvino_engine.tolerance_of("bf16")


def test_precision_follows_the_device():
    def device(name, *precisions):
        return availability.EngineDevice(name=name, full_name=name, precisions=precisions)

    assert availability.choose_precision(device("CPU", "bf16", "f16", "f32")) == "bf16"
    assert availability.choose_precision(device("CPU", "f32")) == "f32"
    assert availability.choose_precision(device("GPU.0", "f16", "f32")) == "f16"
    assert availability.choose_precision(device("NPU", "f16")) == "f16"
    assert availability.choose_precision(device("GPU", "f16"), "f32") == "f32"


def test_a_device_that_needs_fixed_sizes_is_prepared_for_each(model, monkeypatch):
    """As an NPU does; simulated on the CPU."""
    expected = [denoise(model, height=4), denoise(model, height=6)]
    monkeypatch.setattr(availability.EngineDevice, "takes_any_size", property(lambda _self: False))
    stages: list[str] = []
    engine = openvino_engine.use_openvino(
        model, precision="f32", device="CPU", watch=Watch(report=stages.append)
    )
    assert unet.PREPARING not in stages
    found = [denoise(model, height=4), denoise(model, height=4), denoise(model, height=6)]
    assert stages.count(unet.PREPARING) == 2
    assert error_of(found[1], expected[0]) < TOLERANCE
    assert error_of(found[2], expected[1]) < TOLERANCE
    assert engine.axes is SeamlessAxes.OFF


def test_guidance_embedding_of_distilled_models():
    """Latent consistency models take the guidance scale as a further input."""
    model = micro_model(time_cond_proj_dim=6)
    inputs = inputs_of(model, batch=2) | {"timestep_cond": torch.randn(2, 6)}
    with torch.inference_mode():
        expected = model.pipeline.unet(**inputs).sample
        openvino_engine.use_openvino(model, precision="f32", device="CPU")
        assert error_of(model.pipeline.unet(**inputs).sample, expected) < TOLERANCE
        with pytest.raises(EngineError, match="needs timestep_cond"):
            model.pipeline.unet(**inputs_of(model))


def test_inputs_that_the_network_does_not_have_are_refused(model):
    openvino_engine.use_openvino(model, device="CPU")
    network = model.pipeline.unet
    inputs = inputs_of(model)
    assert network(**inputs, cross_attention_kwargs={}, class_labels=None).sample is not None
    with pytest.raises(EngineError, match="cannot take mid_block_additional_residual"):
        network(**inputs, mid_block_additional_residual=torch.zeros(1))


def test_what_else_is_asked_of_the_unet_is_the_unets_own():
    model = micro_model(**SHAPES["sdxl"])
    original = model.pipeline.unet
    engine = openvino_engine.use_openvino(model, device="CPU")
    assert engine.dtype == torch.float32
    assert engine.device == torch.device("cpu")
    assert engine.config is original.config
    assert engine.add_embedding.linear_1.in_features == 40
    with pytest.raises(AttributeError):
        _ = engine.no_such_layer


def test_cancelling_during_the_conversion_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    model = micro_model(tmp_path)
    expected = denoise(model)
    asked = 0

    def raise_if_cancelled():
        nonlocal asked
        asked += 1
        if asked > 2:  # while it is traced
            raise CancelledError("cancelled by the test")

    stages: list[str] = []
    watch = Watch(report=stages.append, raise_if_cancelled=raise_if_cancelled)
    with pytest.raises(CancelledError):
        openvino_engine.use_openvino(model, watch=watch, device="CPU")
    assert stages == ["Converting the model for OpenVINO"]
    assert list(cache.folder().iterdir()) == []
    assert openvino_engine.in_use(model) is None
    assert torch.equal(denoise(model), expected)
    assert not any(module._forward_pre_hooks for module in model.pipeline.unet.modules())


def test_a_conversion_that_fails_is_a_sentence(model, monkeypatch):
    def fail(_traced):
        raise RuntimeError("[PyTorch Frontend] no conversion for aten::new")

    monkeypatch.setattr(cache, "find", lambda _key: None)
    monkeypatch.setattr(availability.import_openvino(), "convert_model", fail)
    with pytest.raises(EngineError, match="could not be converted for OpenVINO"):
        openvino_engine.use_openvino(model, device="CPU")
    assert openvino_engine.in_use(model) is None


def test_a_network_that_cannot_be_prepared_is_a_sentence(model, monkeypatch):
    """As on a GPU whose driver is too old; the weights are given up by then, and come back."""
    original, expected = model.pipeline.unet, denoise(model)
    settings = unet.OpenVinoUNet._settings
    monkeypatch.setattr(
        unet.OpenVinoUNet, "_settings", lambda self: settings(self) | {"NO_SUCH_SETTING": 1}
    )
    with pytest.raises(EngineError, match=r"could not prepare the model for .* Set Engine"):
        openvino_engine.use_openvino(model, precision="f32", device="CPU")
    assert model.pipeline.unet is original
    assert torch.equal(denoise(model), expected)


def test_missing_openvino_is_a_sentence(model, monkeypatch):
    expected = denoise(model)
    monkeypatch.setattr(availability, "installed_version", lambda: "")
    assert "OpenVINO is not installed" in openvino_engine.why_not()
    with pytest.raises(EngineError, match=r"not installed .* set Engine to PyTorch\.$"):
        openvino_engine.use_openvino(model)
    assert torch.equal(denoise(model), expected)


def test_a_broken_openvino_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert "could not be started" in openvino_engine.why_not()


def test_a_device_that_is_not_there_is_a_sentence(model, monkeypatch):
    with pytest.raises(EngineError, match=r'no device "TPU" here\. Use one of .*CPU'):
        openvino_engine.use_openvino(model, device="TPU")
    monkeypatch.setenv(availability.DEVICE_VARIABLE, "TPU")
    with pytest.raises(EngineError, match="TPU"):
        openvino_engine.use_openvino(model)


def test_models_that_are_no_unet_are_refused(model):
    model.pipeline.unet = torch.nn.Linear(1, 1)
    assert 'offered for Stable Diffusion models, and "micro" is none' in openvino_engine.refusal(
        model
    )
    labelled = micro_model(class_embed_type="timestep")
    assert "takes inputs" in openvino_engine.refusal(labelled)
    shrunk = micro_model()
    shrunk.pipeline.unet.conv_in.to(torch.float8_e4m3fn)
    assert "8 bits" in openvino_engine.refusal(shrunk)


def test_nothing_is_reported_to_anyone():
    availability.import_openvino()
    assert sys.modules["openvino_telemetry"] is None


def test_the_installed_version_is_the_one_that_users_get():
    pinned = (ROOT / "requirements" / "openvino.txt").read_text(encoding="utf-8")
    assert f"openvino=={availability.installed_version()}\n" in pinned
    runtime = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()
    tests = (ROOT / "requirements" / "dev" / "generator.txt").read_text(encoding="utf-8")
    (numpy,) = (line for line in tests.splitlines() if line.startswith("numpy=="))
    assert numpy in runtime


def test_the_key_tells_apart_what_makes_a_difference(model, monkeypatch):
    network = model.pipeline.unet
    keys = {conversion.key_of("weights", network, axes) for axes in SeamlessAxes}
    keys.add(conversion.key_of("other weights", network, SeamlessAxes.OFF))
    other = micro_model(cross_attention_dim=2 * FEATURES).pipeline.unet
    keys.add(conversion.key_of("weights", other, SeamlessAxes.OFF))
    monkeypatch.setattr(conversion, "installed_version", lambda: "2027.0.0")
    keys.add(conversion.key_of("weights", network, SeamlessAxes.OFF))
    assert len(keys) == 7
