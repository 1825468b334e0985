# SPDX-License-Identifier: GPL-3.0-or-later
"""What Tessera adds to Blender, in order. Side: Blender."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import bpy
from bpy.props import PointerProperty

from . import handlers, preferences, runtime, session
from .operators import install_runtime
from .operators.bake import TESSERA_OT_bake
from .operators.cancel import TESSERA_OT_cancel
from .operators.copy_text import TESSERA_OT_copy_text
from .operators.generate import TESSERA_OT_generate
from .operators.halve_size import TESSERA_OT_halve_size
from .operators.model_folders import (
    TESSERA_OT_add_model_folder,
    TESSERA_OT_remove_model_folder,
)
from .operators.open_log import TESSERA_OT_open_log
from .operators.queue_jobs import (
    TESSERA_OT_queue_clear,
    TESSERA_OT_queue_move,
    TESSERA_OT_queue_rerun,
)
from .operators.release_memory import TESSERA_OT_release_memory
from .operators.report import TESSERA_OT_report
from .operators.reset_preferences import TESSERA_OT_reset_preferences
from .operators.reuse_seed import TESSERA_OT_reuse_seed
from .operators.save_image import TESSERA_OT_save_image
from .operators.use_preset import TESSERA_OT_use_preset
from .optimization_settings import TESSERA_PG_optimizations
from .panels import status_bar
from .panels.advanced import TESSERA_PT_advanced_image, TESSERA_PT_advanced_shader
from .panels.bake import TESSERA_PT_bake_shader
from .panels.optimizations import (
    MENUS,
    TESSERA_PT_optimizations_image,
    TESSERA_PT_optimizations_shader,
)
from .panels.preferences import TESSERA_UL_model_folders
from .panels.prompt import TESSERA_PT_prompt_image, TESSERA_PT_prompt_shader
from .panels.queue import TESSERA_PT_queue_image, TESSERA_PT_queue_shader
from .preferences import TESSERA_AP_preferences, TESSERA_PG_model_folder
from .properties import TESSERA_PG_settings

if TYPE_CHECKING:
    from .generator_process.client import Client

CLASSES: tuple[type, ...] = (
    TESSERA_PG_optimizations,
    TESSERA_PG_model_folder,
    TESSERA_UL_model_folders,
    TESSERA_AP_preferences,
    TESSERA_PG_settings,
    TESSERA_OT_generate,
    TESSERA_OT_cancel,
    TESSERA_OT_queue_move,
    TESSERA_OT_queue_rerun,
    TESSERA_OT_queue_clear,
    TESSERA_OT_report,
    TESSERA_OT_release_memory,
    install_runtime.TESSERA_OT_install_runtime,
    install_runtime.TESSERA_OT_cancel_installation,
    install_runtime.TESSERA_OT_remove_runtime,
    TESSERA_OT_reuse_seed,
    TESSERA_OT_save_image,
    TESSERA_OT_bake,
    TESSERA_OT_use_preset,
    TESSERA_OT_add_model_folder,
    TESSERA_OT_remove_model_folder,
    TESSERA_OT_reset_preferences,
    TESSERA_OT_copy_text,
    TESSERA_OT_open_log,
    TESSERA_OT_halve_size,
    *MENUS,
    TESSERA_PT_prompt_image,
    TESSERA_PT_queue_image,
    TESSERA_PT_advanced_image,
    TESSERA_PT_optimizations_image,
    TESSERA_PT_prompt_shader,
    TESSERA_PT_queue_shader,
    TESSERA_PT_advanced_shader,
    TESSERA_PT_optimizations_shader,
    TESSERA_PT_bake_shader,
)

_registered = ExitStack()


def register() -> None:
    """Register everything, or nothing: what was done before an error is undone."""
    with ExitStack() as done:
        for add, remove in _parts():
            add()
            done.callback(remove)
        _registered.push(done.pop_all())


def unregister() -> None:
    """Undo `register`, in reverse. Safe to call twice."""
    _registered.close()


def _parts() -> list[tuple[Callable[[], object], Callable[[], object]]]:
    classes = [(_adding(cls), _removing(cls)) for cls in CLASSES]
    command: list[object] = []
    return [
        *classes,
        (preferences.migrate, _nothing),
        (preferences.apply_log_level, preferences.reset_log_level),
        (_add_settings, _remove_settings),
        (handlers.add, handlers.remove),
        (status_bar.add, status_bar.remove),
        (_start_session, session.stop),
        (lambda: _add_command(command), lambda: _remove_command(command)),
        (_nothing, install_runtime.stop),
    ]


def _adding(cls: type) -> Callable[[], None]:
    return lambda: bpy.utils.register_class(cls)


def _removing(cls: type) -> Callable[[], None]:
    return lambda: bpy.utils.unregister_class(cls)


def _add_settings() -> None:
    bpy.types.Scene.tessera = PointerProperty(type=TESSERA_PG_settings)  # pyright: ignore[reportAttributeAccessIssue]


def _remove_settings() -> None:
    del bpy.types.Scene.tessera  # pyright: ignore[reportAttributeAccessIssue]


def _start_session() -> None:
    session.start(_new_client)


def _add_command(handles: list[object]) -> None:
    handles.append(bpy.utils.register_cli_command("tessera", _run_command))


def _remove_command(handles: list[object]) -> None:
    bpy.utils.unregister_cli_command(handles.pop())


def _run_command(arguments: list[str]) -> int:
    from . import cli

    return cli.main(arguments)


def _nothing() -> None:
    """There is nothing to do: an installation begins when the user asks for it."""


def _new_client() -> "Client":
    from .generator_process.client import GeneratorProcess

    return GeneratorProcess(runtime.generator_command())
