"""What the panels lay out in which state. Bug reports P037 and P134, and a narrow sidebar."""

from types import SimpleNamespace

import bpy
import pytest
from fakes.layout import RecordingLayout, texts
from fakes.painter import pixels_of
from tessera import images, preferences, preview, registration, runtime, session
from tessera.generator_process.errors import ErrorKind
from tessera.generator_process.messages import (
    Cancelled,
    Failed,
    Finished,
    ImageData,
    ImageFinished,
    Progress,
)
from tessera.installation import install
from tessera.panels import wrap
from tessera.panels.advanced import TESSERA_PT_advanced_image
from tessera.panels.bake import TESSERA_PT_bake_shader
from tessera.panels.optimizations import TESSERA_PT_optimizations_image
from tessera.panels.preferences import draw_preferences
from tessera.panels.prompt import TESSERA_PT_prompt_image, TESSERA_PT_prompt_shader
from tessera.prompting.structures import STRUCTURES, TOKENS


def _draw(panel, width=250, image=None, space="IMAGE_EDITOR"):
    layout = RecordingLayout()
    context = SimpleNamespace(
        scene=bpy.context.scene,
        region=SimpleNamespace(width=width),
        space_data=SimpleNamespace(type=space, image=image),
    )
    panel.draw(SimpleNamespace(layout=layout), context)
    return layout.calls


def _submit():
    settings = bpy.context.scene.tessera
    settings.width, settings.height, settings.seed = 16, 8, "5"
    return session.get().submit(settings.to_text_to_image())


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    state = runtime.RuntimeState(is_installed=True, message="The generator is installed")
    monkeypatch.setattr(runtime, "state", lambda: state)


def test_shows_the_settings_and_the_button():
    calls = _draw(TESSERA_PT_prompt_image)
    assert texts(calls, "prop") == [
        "prompt_structure",
        "prompt",
        "negative_prompt",
        "width",
        "height",
        "seamless",
        "seed",
    ]
    assert texts(calls, "operator") == ["tessera.generate"]
    assert texts(calls) == []


def test_advanced_shows_the_rest():
    from tessera.properties import SETTING_NAMES

    shown = texts(_draw(TESSERA_PT_prompt_image), "prop")
    shown += texts(_draw(TESSERA_PT_advanced_image), "prop")
    shown += texts(_draw(TESSERA_PT_optimizations_image), "prop")
    assert sorted(shown) == sorted(set(SETTING_NAMES) - set(TOKENS)), "every setting once"


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=lambda one: one.name)
def test_a_structure_shows_its_own_choices(structure):
    bpy.context.scene.tessera.prompt_structure = structure.name
    shown = texts(_draw(TESSERA_PT_prompt_image), "prop")
    assert [name for name in shown if name in TOKENS] == [token.name for token in structure.tokens]


def test_the_editors_show_the_same(generator):
    _submit()
    assert _kinds(TESSERA_PT_prompt_image) == _kinds(TESSERA_PT_prompt_shader)


def _kinds(panel):
    return [call[:2] for call in _draw(panel)]


def test_shows_progress_and_cancel(generator):
    job = _submit()
    _submit()
    generator.push(Progress(job_id=job.job_id, step=3, steps=20, stage="Sampling"))
    session.get().pump()
    calls = _draw(TESSERA_PT_prompt_image)
    assert texts(calls, "progress") == ["Sampling 3/20"]
    assert texts(calls) == ["0 s", "1 job waits"]
    stops = [call[2] for call in calls if call[1] == "tessera.cancel"]
    assert [getattr(stop, "job_id", "all") for stop in stops] == ["all", job.job_id]


def test_shows_how_it_ended(generator):
    job = _submit()
    image = ImageData(pixels=pixels_of(5, 16, 8))
    generator.push(ImageFinished(job_id=job.job_id, index=0, seed=5, image=image))
    generator.push(Finished(job_id=job.job_id, notes=("Words were left out.",)))
    session.get().wait(job)
    calls = _draw(TESSERA_PT_prompt_image)
    assert texts(calls)[0].startswith("1 image in ")
    assert "Words were left out." in texts(calls)
    assert "Seed 5" in texts(calls)
    assert [call[2].seed for call in calls if call[1] == "tessera.reuse_seed"] == ["5"]


def test_shows_a_cancelled_job(generator):
    job = _submit()
    generator.push(Cancelled(job_id=job.job_id))
    session.get().pump()
    assert texts(_draw(TESSERA_PT_prompt_image)) == ["Cancelled"]


@pytest.mark.parametrize("width", [120, 180, 250, 600])
def test_shows_an_error_in_lines_that_fit(generator, width):
    job = _submit()
    message = "Not enough memory for 8192 x 8192 with this model. Lower the size."
    generator.push(Failed(job_id=job.job_id, kind=ErrorKind.OUT_OF_MEMORY, message=message))
    session.get().pump()
    lines = texts(_draw(TESSERA_PT_prompt_image, width=width))
    assert " ".join(lines) == message
    assert max(map(len, lines)) <= max(width / 6, 16)


@pytest.fixture
def online():
    bpy.context.preferences.system.use_online_access = True
    yield
    bpy.context.preferences.system.use_online_access = False


def test_offers_the_installation(monkeypatch, online):
    state = runtime.RuntimeState(is_installed=False, message="Press Install Generator.")
    monkeypatch.setattr(runtime, "state", lambda: state)
    calls = _draw(TESSERA_PT_prompt_image)
    assert texts(calls) == ["Press Install Generator."]
    assert texts(calls, "operator") == [
        "tessera.install_runtime",
        "preferences.addon_show",
        "tessera.generate",
    ]


def test_without_the_network_the_installation_says_so(monkeypatch):
    state = runtime.RuntimeState(is_installed=False, message="Press Install Generator.")
    monkeypatch.setattr(runtime, "state", lambda: state)
    calls = _draw(TESSERA_PT_prompt_image)
    assert "turn on Allow Online Access" in " ".join(texts(calls))
    assert texts(calls, "operator")[0] == "screen.userpref_show"


def test_the_installation_is_that_of_the_preferences(monkeypatch, machine_preferences, online):
    state = runtime.RuntimeState(is_installed=False, message="Press Install Generator.")
    monkeypatch.setattr(runtime, "state", lambda: state)
    machine_preferences.install_openvino = True
    calls = _draw(TESSERA_PT_prompt_image)
    assert [call[2].openvino for call in calls if call[1] == "tessera.install_runtime"] == [True]


def test_the_shader_editor_shows_the_preview(generator, monkeypatch):
    job = _submit()
    shown = bpy.data.images.new("Preview", 4, 4)
    monkeypatch.setattr(preview, "find", lambda: shown)
    session.get().jobs.apply(Progress(job_id=job.job_id, step=3, steps=20, stage="Sampling"))
    assert texts(_draw(TESSERA_PT_prompt_image), "template_icon") == []
    assert texts(_draw(TESSERA_PT_prompt_shader, space="NODE_EDITOR"), "template_icon") == []
    icon = shown.preview_ensure().icon_id
    calls = _draw(TESSERA_PT_prompt_shader, space="NODE_EDITOR")
    assert texts(calls, "template_icon") == [icon]


def test_bake_has_a_button():
    calls = _draw(TESSERA_PT_bake_shader, space="NODE_EDITOR")
    assert texts(calls, "operator") == ["tessera.bake"]


def test_shows_a_running_installation(monkeypatch):
    progress = SimpleNamespace(fraction=0.5, text="Downloading")
    running = SimpleNamespace(is_running=True, progress=progress, error=None)
    monkeypatch.setattr(install, "current", lambda: running)
    calls = _draw(TESSERA_PT_prompt_image)
    assert texts(calls, "progress") == ["Downloading"]
    assert texts(calls, "operator") == ["tessera.cancel_installation", "tessera.generate"]


def test_the_preferences_show_the_state(machine_preferences):
    layout = RecordingLayout()
    draw_preferences(layout, machine_preferences, width_px=600)
    calls = layout.calls
    assert texts(calls)[0] == "The generator is installed"
    shown = texts(calls, "prop") + texts(calls, "template_list")
    hidden = {"model_folders", "active_model_folder", "optimizations"}
    declared = set(preferences.TESSERA_AP_preferences.__annotations__) - hidden
    assert declared <= set(shown)
    (install_button,) = [call[2] for call in calls if call[1] == "tessera.install_runtime"]
    assert install_button.openvino is False


def test_shows_the_seed_of_the_open_image():
    settings = _settings(seed=2**64 - 1)
    image = images.new_image("a", ImageData(pixels=pixels_of(1, 8, 8)), settings)
    calls = _draw(TESSERA_PT_prompt_image, image=image)
    assert texts(calls) == [f"Seed {2**64 - 1}"]
    assert [call[2].image for call in calls if call[1] == "tessera.save_image"] == [image.name]
    assert texts(_draw(TESSERA_PT_prompt_image, image=bpy.data.images.new("b", 8, 8))) == []


def _settings(seed):
    from tessera.metadata import settings_of_request

    request = bpy.context.scene.tessera.to_text_to_image()
    return settings_of_request(request, seed=seed, seed_text="", model="Starter")


def test_panels_are_where_they_should_be():
    found = {
        cls.__name__: (cls.bl_space_type, cls.bl_region_type, cls.bl_category)
        for cls in registration.CLASSES
        if issubclass(cls, bpy.types.Panel)
    }
    for name, place in found.items():
        editor = "IMAGE_EDITOR" if name.endswith("_image") else "NODE_EDITOR"
        assert place == (editor, "UI", "Tessera")
    assert len(found) == 9


def test_only_shader_trees_show_the_panel():
    for tree, shown in (("ShaderNodeTree", True), ("GeometryNodeTree", False), ("", False)):
        context = SimpleNamespace(space_data=SimpleNamespace(tree_type=tree))
        assert TESSERA_PT_prompt_shader.poll(context) is shown


def test_lines_of_text():
    assert wrap("", 200) == [""]
    assert wrap("one two", 10_000) == ["one two"]
    assert " ".join(wrap("a b " * 50, 150)) == ("a b " * 50).strip()
