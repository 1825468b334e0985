"""The operators against the real generator process and a tiny model with random weights.

Runs where TESSERA_PYTHON names a Python that has torch.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import bpy
import numpy as np
import pytest
from fakes.layout import RecordingLayout, texts
from tessera import images, session
from tessera.generator_process.jobs import JobState
from tessera.panels.optimizations import TESSERA_PT_optimizations_image

pytestmark = pytest.mark.slow

_WRITE_MODEL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import tiny_models
folder = Path(sys.argv[2])
tiny_models.sd_pipeline(folder / "parts").save_pretrained(folder / "model")
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model, in a path that is hard on everything."""
    python = os.environ.get("TESSERA_PYTHON")
    if not python:
        reason = "TESSERA_PYTHON names no Python with torch"
        if "blender" in os.environ.get("TESSERA_REQUIRE", ""):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("модель (1) & 日本")
    fakes = Path(__file__).parents[1] / "fakes"
    command = [python, "-c", _WRITE_MODEL, str(fakes), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return str(folder / "model")


@pytest.fixture
def generate(model):
    """Return a function: `tessera.generate`, small, to the image's pixels."""

    def run(**values):
        before = set(bpy.data.images.keys())
        small = {"prompt": "red brick wall", "width": 64, "height": 64, "steps": 1, "seed": "7"}
        result = bpy.ops.tessera.generate(**{**small, "model": model, **values})
        assert result == {"FINISHED"}
        (name,) = set(bpy.data.images.keys()) - before
        return images.image_data_of(bpy.data.images[name]).pixels

    return run


def _pid():
    return session.get()._client.pid


def test_generates_cancels_and_survives(generate, model):
    """One process for all, because starting it takes seconds. P009, P010, P061, P065 and P133."""
    first = generate(width=200, height=120)
    assert first.shape == (120, 200, 4)
    assert first[..., :3].std() > 1
    assert np.array_equal(generate(width=200, height=120), first), "the same seed"
    assert not np.array_equal(generate(width=200, height=120, seed="8"), first)

    with pytest.raises(RuntimeError, match=r'There is no model in ".*nothing"'):
        generate(model=str(Path(model).parent / "nothing"))
    assert generate().shape == (64, 64, 4), "the next one works"

    settings = bpy.context.scene.tessera
    settings.width = settings.height = 64
    settings.model, settings.steps = model, 1000
    job = session.get().submit(settings.to_text_to_image())
    end_s = time.monotonic() + 60
    while job.step < 3:
        assert time.monotonic() < end_s
        session.get().pump()
        time.sleep(0.01)
    assert bpy.ops.tessera.cancel() == {"FINISHED"}
    step = job.step
    while not job.has_ended:
        assert time.monotonic() < end_s
        session.get().pump()
        time.sleep(0.001)
    assert job.state is JobState.CANCELLED
    assert job.step < step + 200
    assert generate().shape == (64, 64, 4), "the model is still there"

    os.kill(_pid(), signal.SIGKILL)
    time.sleep(1.0)
    assert np.array_equal(generate(width=200, height=120), first), "killed idle, started again"

    pid = _pid()
    bpy.ops.tessera.release_memory()
    assert not Path(f"/proc/{pid}").exists()


def test_optimizations_take_effect(generate, machine_preferences):
    """Those of the machine and those of the call. The panel tells what was done and what not."""
    big = {"width": 256, "height": 192}
    plain = generate(**big, automatic=False, half_precision="OFF")
    machine_preferences.optimizations.automatic = False
    machine_preferences.optimizations.vae_tile_size = 64
    machine_preferences.optimizations.vae_tile_blend = 32
    machine_preferences.optimizations.half_precision = "OFF"
    tiled = generate(**big, vae_tiling="EXACT", attention="XFORMERS")
    assert np.abs(tiled.astype(int) - plain).max() <= 1

    result = session.get().last_result
    assert "vae_tiling: exact" in result.applied
    assert "vae_tile_size: 64" in result.applied
    assert any("xFormers" in sentence for sentence in result.skipped)
    assert session.ready().environment.probed

    layout = RecordingLayout()
    context = SimpleNamespace(scene=bpy.context.scene, region=SimpleNamespace(width=400))
    TESSERA_PT_optimizations_image.draw(SimpleNamespace(layout=layout), context)
    lines = texts(layout.calls)
    last = lines[lines.index("Last Job") :]
    assert "VAE Tiling: Exact" in last
    assert "Attention (xFormers)" in " ".join(last)
    bpy.ops.tessera.release_memory()
