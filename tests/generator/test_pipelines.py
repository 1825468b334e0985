# SPDX-License-Identifier: GPL-3.0-or-later
"""Loading: what is there, what is missing, and what must never happen."""

import gc
import json
import pickle
import shutil
import socket
import weakref

import pytest
import torch
from generator.conftest import cpu_resources
from safetensors.torch import load_file, save_file
from tessera.generator_process import model_files
from tessera.generator_process.errors import ModelError
from tessera.generator_process.messages import ModelRef, ModelSource

UNET = "diffusion_pytorch_model"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Bug report P026: whatever is loaded, no connection is opened."""

    def refuse(*_arguments):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def models():
    return cpu_resources().models


@pytest.fixture
def copy(model_folders, tmp_path):
    """A copy of a tiny model that the test may break, in a path with spaces and letters."""

    def make(kind="starter"):
        folder = tmp_path / "a b (c) & d" / "Пользователь 日本"
        return shutil.copytree(model_folders[kind], folder)

    return make


def _ref(folder) -> ModelRef:
    return ModelRef(source=ModelSource.FOLDER, location=str(folder))


def _edit(path, **changes):
    config = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps(config), encoding="utf-8")


def test_any_path_loads_without_the_network(models, copy):
    """Bug reports P009 and P010."""
    loaded = models.load(_ref(copy()), torch.float32)
    assert (loaded.kind, loaded.latent_channels, loaded.latent_factor) == ("sd", 8, 4)
    assert (loaded.step_px, loaded.unit_px) == (8, 16)
    assert loaded.pipeline.safety_checker is None


@pytest.mark.parametrize("kind", ["sd", "starter", "sdxl"])
def test_sizes_and_channels_come_from_the_configuration(runners, kind):
    model = runners[kind].model
    expected = {"sd": (4, 8, 8, 64), "starter": (8, 4, 8, 16), "sdxl": (4, 2, 8, 8)}
    found = (model.latent_channels, model.latent_factor, model.step_px, model.unit_px)
    assert found == expected[kind]


def test_the_same_model_is_loaded_once_and_another_frees_it(models, model_folders):
    first = models.load(_ref(model_folders["starter"]), torch.float32)
    assert models.load(_ref(model_folders["starter"]), torch.float32) is first
    gone = weakref.ref(first.pipeline.unet)
    del first
    models.load(_ref(model_folders["sd"]), torch.float32)
    gc.collect()
    assert gone() is None


def test_a_model_that_changed_on_disk_is_loaded_again(models, copy):
    folder = copy()
    first = models.load(_ref(folder), torch.float32)
    weights = folder / "unet" / f"{UNET}.safetensors"
    tensors = load_file(weights)
    tensors["conv_in.bias"] = tensors["conv_in.bias"] + 1
    save_file(tensors, weights)
    again = models.load(_ref(folder), torch.float32)
    assert again is not first
    difference = again.pipeline.unet.conv_in.bias - first.pipeline.unet.conv_in.bias
    assert torch.allclose(difference, torch.ones_like(difference))


@pytest.mark.parametrize(
    "missing",
    [
        "unet/config.json",
        f"unet/{UNET}.safetensors",
        f"vae/{UNET}.safetensors",
        "text_encoder/model.safetensors",
        "scheduler/scheduler_config.json",
    ],
)
def test_a_missing_file_is_named(models, copy, missing):
    """Bug report P023."""
    folder = copy()
    (folder / missing).unlink()
    with pytest.raises(ModelError, match="The model is incomplete") as raised:
        models.load(_ref(folder), torch.float32)
    assert str(folder / missing) in str(raised.value)


def test_a_missing_tokenizer_is_named(models, copy):
    folder = copy()
    shutil.rmtree(folder / "tokenizer")
    with pytest.raises(ModelError, match=r"vocab\.json"):
        models.load(_ref(folder), torch.float32)


@pytest.mark.parametrize("length", [0, 4, 100, -1])
def test_weights_that_are_cut_off_are_named(models, copy, length):
    """Bug report P023."""
    path = copy() / "unet" / f"{UNET}.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ModelError, match="damaged or only partly downloaded") as raised:
        models.load(_ref(path.parents[1]), torch.float32)
    assert str(path) in str(raised.value)


def test_weights_of_another_model_are_refused(models, copy):
    folder = copy()
    _edit(folder / "unet" / "config.json", cross_attention_dim=24)
    with pytest.raises(ModelError, match="do not fit its configuration"):
        models.load(_ref(folder), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("stored", ["plain", "fp16"])
def test_either_variant_loads_in_either_precision(models, copy, stored, dtype):
    """Bug report P029."""
    folder = copy()
    if stored == "fp16":
        for path in folder.glob("*/*.safetensors"):
            half = {name: value.half() for name, value in load_file(path).items()}
            save_file(half, path.with_name(f"{path.stem}.fp16.safetensors"), {"format": "pt"})
            path.unlink()
    pipeline = models.load(_ref(folder), dtype).pipeline
    assert pipeline.unet.dtype == pipeline.vae.dtype == pipeline.text_encoder.dtype == dtype


def test_the_variant_that_fits_the_precision_is_preferred(copy):
    folder = copy() / "unet"
    plain = folder / f"{UNET}.safetensors"
    half = folder / f"{UNET}.fp16.safetensors"
    shutil.copy(plain, half)
    assert model_files.weights_of(folder, "diffusers", prefer_half=True).files == (half,)
    assert model_files.weights_of(folder, "diffusers", prefer_half=False).files == (plain,)


def _pickled(folder):
    """Store the weights of UNet and text encoder as older models do."""
    for part, name in (("unet", UNET), ("text_encoder", "model")):
        path = folder / part / f"{name}.safetensors"
        old = "pytorch_model.bin" if part == "text_encoder" else f"{UNET}.bin"
        torch.save(load_file(path), path.with_name(old))
        path.unlink()


def test_pickled_weights_load(models, copy, starter):
    folder = copy()
    _pickled(folder)
    loaded = models.load(_ref(folder), torch.float32).pipeline.unet.conv_in.weight
    assert torch.equal(loaded, starter.model.pipeline.unet.conv_in.weight)


class Malicious:
    def __init__(self, marker) -> None:
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


@pytest.mark.parametrize("part", ["unet", "text_encoder"])
def test_code_in_pickled_weights_never_runs(models, copy, tmp_path, part):
    """Bug report P035."""
    folder, marker = copy(), tmp_path / "executed"
    _pickled(folder)
    (path,) = (folder / part).glob("*.bin")
    weights = {"weight": Malicious(marker)}
    for save in (torch.save, lambda value, to: to.write_bytes(pickle.dumps(value, protocol=2))):
        save(weights, path)
        with pytest.raises(ModelError, match="could not be loaded"):
            models.load(_ref(folder), torch.float32)
        assert not marker.exists()


def test_code_of_a_model_never_runs(models, copy, tmp_path):
    folder, marker = copy(), tmp_path / "executed"
    (folder / "unet" / "mine.py").write_text(f"open({str(marker)!r}, 'w')\n", encoding="utf-8")
    _edit(folder / "model_index.json", unet=["mine", "UNet2DConditionModel"])
    with pytest.raises(ModelError, match=r"has mine\.UNet2DConditionModel as its unet"):
        models.load(_ref(folder), torch.float32)
    assert not marker.exists()


def test_another_kind_of_pipeline_is_refused_by_name(models, copy):
    folder = copy()
    _edit(folder / "model_index.json", _class_name="FluxPipeline")
    with pytest.raises(ModelError, match=r"is a FluxPipeline, which cannot .* Stable Diffusion"):
        models.load(_ref(folder), torch.float32)


@pytest.mark.parametrize("channels", [5, 9])
def test_a_model_for_another_task_is_refused_before_it_is_loaded(models, copy, channels):
    """Bug report P034."""
    folder = copy()
    _edit(folder / "unet" / "config.json", in_channels=channels)
    (folder / "unet" / f"{UNET}.safetensors").unlink()  # not reached
    with pytest.raises(ModelError, match=f"takes {channels} channels where its VAE makes 8"):
        models.load(_ref(folder), torch.float32)


def test_a_model_that_needs_an_image_is_refused(models, copy):
    folder = copy()
    _edit(folder / "unet" / "config.json", addition_embed_type="image")
    with pytest.raises(ModelError, match="needs an image besides the prompt"):
        models.load(_ref(folder), torch.float32)


def test_the_safety_checker_is_neither_needed_nor_loaded(models, copy):
    folder = copy()
    checker = ["stable_diffusion", "StableDiffusionSafetyChecker"]
    _edit(folder / "model_index.json", safety_checker=checker)
    assert models.load(_ref(folder), torch.float32).pipeline.safety_checker is None


def test_no_model_there(models, tmp_path):
    with pytest.raises(ModelError, match="There is no model in"):
        models.load(_ref(tmp_path), torch.float32)


def test_a_repository_in_the_cache(models, model_folders, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--someone--tiny"
    shutil.copytree(model_folders["starter"], repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    here = ModelRef(source=ModelSource.HUB, location="someone/tiny")
    assert models.load(here, torch.float32).name == "someone/tiny"
    for location, message in (
        ("someone/else", "is not on this computer"),
        ("../../etc", "is not the name of a repository"),
        ("a/b/c", "is not the name of a repository"),
    ):
        with pytest.raises(ModelError, match=message):
            models.load(ModelRef(source=ModelSource.HUB, location=location), torch.float32)


def test_a_sharded_model_is_complete_only_with_all_parts(copy):
    folder = copy() / "unet"
    whole = folder / f"{UNET}.safetensors"
    tensors = load_file(whole)
    whole.unlink()
    names = sorted(tensors)
    shards = {f"{UNET}-0000{n + 1}-of-00002.safetensors": names[n::2] for n in range(2)}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, folder / file, {"format": "pt"})
    weight_map = {name: file for file, part in shards.items() for name in part}
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / f"{UNET}.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert len(model_files.weights_of(folder, "diffusers", prefer_half=False).files) == 2
    models = cpu_resources().models
    loaded = models.load(_ref(folder.parent), torch.float32).pipeline.unet.conv_in.weight
    assert torch.equal(loaded, tensors["conv_in.weight"])
    (folder / list(shards)[1]).unlink()
    with pytest.raises(ModelError, match="00002-of-00002"):
        model_files.weights_of(folder, "diffusers", prefer_half=False)
