# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""What is stored for this machine. Side: Blender."""

import logging
from typing import TYPE_CHECKING, Any, cast

import bpy
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    IntProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import AddonPreferences, Context, PropertyGroup

from .generator_process.choices import STARTER
from .optimization_settings import OPTION_NAMES, TESSERA_PG_optimizations

_CAN_BE_RELATIVE = "is_path_supports_blend_relative" in bpy.types.Property.bl_rna.properties
PATH_OPTIONS: Any = {"PATH_SUPPORTS_BLEND_RELATIVE"} if _CAN_BE_RELATIVE else set()
"""Options of a path that may begin with "//". From Blender 4.5 on it has to be said."""

OPENVINO_DESCRIPTION = (
    "Install Intel's engine too, with which processors and Intel GPUs make images faster. Choose it"
    " as the Engine of the optimizations"
)
AUTOMATIC_DEVICE = "AUTOMATIC"

_WITH_NEXT_JOB = ". Takes effect with the next job, for which the generator is started afresh"
_DEVICE_ITEMS = [
    (AUTOMATIC_DEVICE, "Automatic", "The best device that works"),
    ("CUDA", "NVIDIA or AMD GPU", "CUDA or ROCm"),
    ("MPS", "Apple GPU", "Metal"),
    ("XPU", "Intel GPU", "PyTorch for Intel GPUs"),
    ("DML", "DirectML", "Any GPU on Windows, by torch-directml"),
    ("CPU", "CPU", "The processor, also where there is a GPU"),
]
_LOG_LEVEL_ITEMS = [
    ("WARNING", "Warnings", "Only what went wrong"),
    ("INFO", "Information", "What was done, too"),
    ("DEBUG", "Everything", "Details for a bug report, and the same in Blender's console"),
]


class TESSERA_PG_model_folder(PropertyGroup):
    """A folder in which the user keeps models."""

    path: StringProperty(
        name="Folder",
        description="A folder with diffusers models, or one such model",
        subtype="DIR_PATH",
        options=PATH_OPTIONS,
    )

    if TYPE_CHECKING:
        path: str


def _search_models(_preferences: object, _context: Context, text: str) -> list[str]:
    from .models import find_models

    found = find_models(model_folders())
    return [model.text for model in found if text.casefold() in model.text.casefold()]


def _apply_log_level(_preferences: object, _context: Context) -> None:
    apply_log_level()


class TESSERA_AP_preferences(AddonPreferences):
    """Where the generator and the models are, and how this machine makes images."""

    bl_idname = __package__ or ""

    python_path: StringProperty(
        name="Python",
        description="An interpreter that has PyTorch and diffusers."
        " Leave it empty to use the one that Tessera installs",
        subtype="FILE_PATH",
        options=PATH_OPTIONS,
    )
    install_openvino: BoolProperty(
        name="With OpenVINO", description=OPENVINO_DESCRIPTION, default=False
    )
    device: EnumProperty(
        name="Device",
        description=f"What computes{_WITH_NEXT_JOB}",
        items=_DEVICE_ITEMS,
    )
    memory_limit_gib: FloatProperty(
        name="Memory Limit",
        description="How much of the device's memory Tessera may use, in GiB. 0 is all of it"
        f"{_WITH_NEXT_JOB}",
        default=0.0,
        min=0.0,
        soft_max=128.0,
        step=100,
        precision=1,
    )
    default_model: StringProperty(
        name="Default Model",
        description="The model of scenes in which none is chosen. Empty is the starter model",
        search=_search_models,
        search_options={"SUGGESTION"},
    )
    model_folder_list: CollectionProperty(type=TESSERA_PG_model_folder)
    active_model_folder: IntProperty(name="Active Folder", default=0, min=0)
    model_folders: StringProperty(
        name="Model Folders",
        description="Folders separated by semicolons, as Tessera 0.1 stored them",
        options={"HIDDEN"},
    )
    hub_token: StringProperty(
        name="Hub Token",
        description="Access token of huggingface.co. It is stored with Blender's preferences on"
        " this computer, never in a file of yours, and given to the generator alone",
        subtype="PASSWORD",
    )
    preview_interval_ms: IntProperty(
        name="Preview Interval",
        description="The least time between two previews, in milliseconds. Longer leaves more of"
        " Blender to other work",
        default=100,
        min=0,
        soft_max=2000,
    )
    history_limit: IntProperty(
        name="History Size",
        description="How many images the history keeps. The oldest are removed. 0 keeps all",
        default=500,
        min=0,
        soft_max=10_000,
    )
    log_level: EnumProperty(
        name="Log",
        description=f"What is written to the logs{_WITH_NEXT_JOB}",
        items=_LOG_LEVEL_ITEMS,
        default="INFO",
        update=_apply_log_level,
    )
    optimizations: PointerProperty(type=TESSERA_PG_optimizations)

    if TYPE_CHECKING:
        python_path: str
        install_openvino: bool
        device: str
        memory_limit_gib: float
        default_model: str
        model_folder_list: bpy.types.bpy_prop_collection_idprop[TESSERA_PG_model_folder]
        active_model_folder: int
        model_folders: str
        hub_token: str
        preview_interval_ms: int
        history_limit: int
        log_level: str
        optimizations: TESSERA_PG_optimizations

    def draw(self, context: Context) -> None:
        from .panels.preferences import draw_preferences

        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        draw_preferences(layout, self, width_px=context.region.width)


def get() -> TESSERA_AP_preferences | None:
    """Return the preferences, or None when Tessera was registered by a script, without them."""
    addons = bpy.context.preferences.addons
    addon = addons.get(__package__)
    return cast(TESSERA_AP_preferences, addon.preferences) if addon is not None else None


def _value(name: str) -> Any:  # noqa: ANN401  as many types as properties
    """Return what is stored, or the default when Tessera has no preferences."""
    preferences = get()
    if preferences is not None:
        return getattr(preferences, name)
    declared = TESSERA_AP_preferences.bl_rna.properties[name]
    return declared.default  # pyright: ignore[reportAttributeAccessIssue]


def python_path() -> str:
    """Return the interpreter that the user has chosen. Empty if none."""
    return _value("python_path")


def device() -> str:
    """Return the kind of device to compute on, of `optimizations.DEVICES`. Empty: automatic."""
    chosen: str = _value("device")
    return "" if chosen == AUTOMATIC_DEVICE else chosen.lower()


def memory_limit_gib() -> float:
    """Return how much of the device's memory may be used, in GiB. 0: all."""
    return _value("memory_limit_gib")


def default_model() -> str:
    """Return the model of scenes in which none is chosen."""
    return _value("default_model").strip() or STARTER


def hub_token() -> str:
    """Return the access token of the hub. Empty: none. It must not get into logs or files."""
    return _value("hub_token").strip()


def preview_interval_ms() -> int:
    """Return the least time between two previews, in milliseconds."""
    return _value("preview_interval_ms")


def history_limit() -> int:
    """Return how many images the history keeps. 0: all."""
    return _value("history_limit")


def log_level() -> str:
    """Return "WARNING", "INFO" or "DEBUG"."""
    return _value("log_level")


def optimizations() -> TESSERA_PG_optimizations | None:
    """Return the optimizations of this machine, or None when Tessera has no preferences."""
    preferences = get()
    return preferences.optimizations if preferences is not None else None


def model_folders() -> list[str]:
    """Return the folders in which the user keeps models, as absolute paths."""
    preferences = get()
    if preferences is None:
        return []
    listed = [folder.path for folder in preferences.model_folder_list]
    paths = [path.strip() for path in (*listed, *preferences.model_folders.split(";"))]
    return list(dict.fromkeys(bpy.path.abspath(path) for path in paths if path))


def migrate() -> None:
    """Move the folders that Tessera 0.1 stored in one text into the list."""
    preferences = get()
    if preferences is None or not preferences.model_folders:
        return
    known = {folder.path for folder in preferences.model_folder_list}
    for path in preferences.model_folders.split(";"):
        if path.strip() and path.strip() not in known:
            preferences.model_folder_list.add().path = path.strip()
    preferences.model_folders = ""


def reset() -> None:
    """Set everything back. What is installed stays, and so do models and images."""
    preferences = get()
    assert preferences is not None, "the caller has looked"
    for name in TESSERA_AP_preferences.__annotations__:
        if name != "optimizations":
            preferences.property_unset(name)
    for name in OPTION_NAMES:
        preferences.optimizations.property_unset(name)
    apply_log_level()


def apply_log_level() -> None:
    """Let Tessera's own logger write as much as the preferences say."""
    reset_log_level()
    logger = logging.getLogger(__package__)
    logger.setLevel(log_level())
    if log_level() == "DEBUG":
        logger.addHandler(_Console())


def reset_log_level() -> None:
    """Leave Tessera's own logger as Python makes it."""
    logger = logging.getLogger(__package__)
    logger.setLevel(logging.NOTSET)
    for handler in [found for found in logger.handlers if isinstance(found, _Console)]:
        logger.removeHandler(handler)


class _Console(logging.StreamHandler[Any]):
    """Blender's console. Python writes warnings there anyway, and nothing less."""
