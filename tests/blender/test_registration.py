"""What enabling adds and disabling removes. Bug reports P014, P073, P075 and P134."""

import sys

import bpy
import pytest
import tessera
from tessera import preferences, registration, session
from tessera.prompting.structures import TOKENS


def _named(prefix="TESSERA_"):
    return sorted(name for name in dir(bpy.types) if name.startswith(prefix))


@pytest.mark.parametrize("cls", registration.CLASSES, ids=lambda cls: cls.__name__)
def test_name_is_what_blender_calls_it(cls):
    assert cls.bl_rna.identifier == cls.__name__
    assert cls.__name__.startswith("TESSERA_")


def test_every_class_of_the_add_on_is_registered():
    from bpy.types import AddonPreferences, Menu, Operator, Panel, PropertyGroup, UIList

    def leaves(cls):
        below = cls.__subclasses__()
        return {cls} if not below else set().union(*map(leaves, below))

    ours = {
        cls
        for base in (AddonPreferences, Menu, Operator, Panel, PropertyGroup, UIList)
        for cls in leaves(base)
        if cls.__module__.startswith("tessera.")
    }
    assert ours == set(registration.CLASSES)


def test_unregister_leaves_nothing(generator):
    assert all(cls.is_registered for cls in registration.CLASSES)
    tessera.unregister()
    assert not any(cls.is_registered for cls in registration.CLASSES)
    assert not hasattr(bpy.types.Scene, "tessera")
    assert _named() == []
    assert not bpy.app.timers.is_registered(session._tick)
    with pytest.raises(KeyError):
        bpy.ops.tessera.generate.get_rna_type()
    tessera.register()


def test_can_be_disabled_and_enabled_again(generator):
    """Ten times, once with a running job, which is cancelled. P073."""
    before = _state()
    session.get().submit(_request())
    for _ in range(10):
        tessera.unregister()
        tessera.register()
    assert generator.closed
    assert _state() == before
    assert not session.is_busy()


def _state():
    handlers = {
        name: len(value)
        for name in dir(bpy.app.handlers)
        if isinstance(value := getattr(bpy.app.handlers, name), list)
    }
    return _named(), handlers, sorted(vars(bpy.types.Scene))


def _request():
    return bpy.context.scene.tessera.to_text_to_image()


@pytest.mark.parametrize("cls", registration.CLASSES, ids=lambda cls: cls.__name__)
def test_a_failure_half_way_undoes_itself(monkeypatch, cls):
    """P134."""
    tessera.unregister()
    register_class = bpy.utils.register_class

    def fail(given):
        if given is cls:
            raise ValueError("half-way")
        register_class(given)

    monkeypatch.setattr(bpy.utils, "register_class", fail)
    with pytest.raises(ValueError, match="half-way"):
        tessera.register()
    monkeypatch.undo()
    assert _named() == []
    assert not hasattr(bpy.types.Scene, "tessera")
    with pytest.raises(RuntimeError, match="not registered"):
        session.get()
    tessera.register()


def test_settings_are_on_every_scene():
    """P134."""
    scene = bpy.data.scenes.new("another")
    assert scene.tessera.width == 512
    bpy.ops.wm.read_homefile(use_empty=True)
    assert bpy.context.scene.tessera.steps == 20


def test_settings_are_kept_in_the_file(tmp_path):
    settings = bpy.context.scene.tessera
    settings.prompt, settings.seed, settings.scheduler = "苔 moss", str(2**64 - 1), "PNDM"
    settings.model = "me/model"
    path = str(tmp_path / "scene.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_homefile(use_empty=True)
    assert bpy.context.scene.tessera.prompt == ""
    bpy.ops.wm.open_mainfile(filepath=path)
    settings = bpy.context.scene.tessera
    assert (settings.prompt, settings.seed) == ("苔 moss", str(2**64 - 1))
    assert (settings.scheduler, settings.model) == ("PNDM", "me/model")


def test_works_without_preferences():
    """Registered by a script there are none: defaults are used. P014."""
    assert preferences.get() is None
    assert preferences.python_path() == ""
    assert preferences.model_folders() == []


def test_the_generator_is_not_started_by_enabling(monkeypatch):
    from tessera.generator_process import child

    monkeypatch.setattr(child, "_start", pytest.fail)
    tessera.unregister()
    tessera.register()
    assert session.get().ready is None
    assert "torch" not in sys.modules


def test_limits_are_those_of_the_messages():
    from tessera.generator_process import messages

    properties = bpy.context.scene.tessera.bl_rna.properties
    for name in ("width", "height"):
        assert properties[name].soft_min == messages.MIN_SIZE_PX
        assert properties[name].soft_max == messages.MAX_SIZE_PX
    assert properties["steps"].soft_max == messages.MAX_STEPS
    assert [item.identifier for item in properties["scheduler"].enum_items] == [
        item.name for item in messages.Scheduler
    ]


def test_every_setting_is_one_of_the_operator():
    operator = bpy.ops.tessera.generate.get_rna_type().properties
    settings = bpy.context.scene.tessera.bl_rna.properties
    names = [name for name in settings.keys() if name not in {"rna_type", "name"}]  # noqa: SIM118
    assert len(names) == 17 + len(TOKENS)
    for name in names:
        assert operator[name].type == settings[name].type
        assert operator[name].description == settings[name].description
