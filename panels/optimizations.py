# SPDX-License-Identifier: GPL-3.0-or-later
"""What saves time and memory on this machine, and what the last job made of it. Side: Blender.

Everything is laid out from what is declared about the options: the groups, the names, what a device
has, and why something cannot be used. In a narrow sidebar a name beside its value would be cut, so
each option has a whole row.
"""

from enum import Enum
from typing import TYPE_CHECKING, cast

from bpy.types import Context, Menu, Panel, UILayout

from .. import optimization_settings, preferences, session
from ..operators.use_preset import TESSERA_OT_use_preset
from ..optimization_presets import preset, presets
from ..optimization_settings import BATCH_SIZE, FIELDS, FREE_NAMES, TESSERA_PG_optimizations
from ..optimizations import Optimizations
from ..properties import TESSERA_PG_settings, settings_of
from . import ImageEditorPanel, ShaderEditorPanel, draw_text

if TYPE_CHECKING:
    from ..optimization_machine import Machine

_GROUPS = (("speed", "Speed"), ("memory", "Memory"))


class OptimizationsPanel(Panel):
    """Not registered itself: the options of this machine."""

    bl_label = "Optimizations"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012  Blender wants a plain set

    def draw(self, context: Context) -> None:
        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        width_px = context.region.width
        group = preferences.optimizations()
        if group is None:
            layout.prop(settings_of(context), BATCH_SIZE)
        else:
            draw_options(layout, group, width_px=width_px, settings=settings_of(context))
        _draw_last_job(layout, width_px=width_px)


class TESSERA_PT_optimizations_image(ImageEditorPanel, OptimizationsPanel):
    """Optimizations, in the Image Editor."""


class TESSERA_PT_optimizations_shader(ShaderEditorPanel, OptimizationsPanel):
    """Optimizations, in the Shader Editor."""


class ChoiceMenu(Menu):
    """Not registered itself: the choices of one option that this machine's device has."""

    option: str

    def draw(self, _context: Context) -> None:
        layout, group = self.layout, preferences.optimizations()
        assert layout is not None, "Blender sets it before draw"
        if group is None:
            return
        machine = _judge(group, self.option)
        for choice in FIELDS[self.option].metadata["choices"]:
            name = f"{self.option}.{choice.value}"
            if not machine.shows(name):
                continue
            reason = machine.why_not(name)
            row = layout.row()
            row.enabled = not reason
            row.prop_enum(group, self.option, choice.name)
            if reason:
                layout.label(text=reason, icon="INFO")


def menu_name(option: str) -> str:
    """Return the name of the menu with an option's choices."""
    return f"TESSERA_MT_{option}"


def _menu_of(option: str) -> type[ChoiceMenu]:
    about = FIELDS[option].metadata
    members = {
        "__doc__": f"{about['label']}.",
        "bl_label": about["label"],
        "bl_description": about["description"],
        "option": option,
    }
    return type(menu_name(option), (ChoiceMenu,), members)


MENUS = tuple(_menu_of(name) for name, field in FIELDS.items() if isinstance(field.default, Enum))
"""A menu for each option that has choices: Blender's own would show all of them everywhere."""


def draw_options(
    layout: UILayout,
    group: TESSERA_PG_optimizations,
    *,
    width_px: float,
    settings: TESSERA_PG_settings | None = None,
) -> None:
    """Lay out the presets and all options that this machine may use.

    Args:
        layout: Where.
        group: The options of this machine.
        width_px: Width of the region.
        settings: Those of a scene, to show the batch size too, which is stored there.
    """
    machine = _machine()
    draw_text(layout, machine.text, width_px=width_px)
    _draw_presets(layout, group, machine)
    layout.prop(group, "automatic")
    for saves, heading in _GROUPS:
        column = layout.column()
        column.label(text=heading)
        for name, field in FIELDS.items():
            if field.metadata["saves"] != saves or name == "automatic":
                continue
            if name != BATCH_SIZE:
                _draw_option(column, group, name, data=group, width_px=width_px)
            elif settings is not None:
                _draw_option(column, group, name, data=settings, width_px=width_px)


def _draw_presets(layout: UILayout, group: TESSERA_PG_optimizations, machine: "Machine") -> None:
    present = optimization_settings.stored_values(group)
    grid = layout.grid_flow(row_major=True, columns=2, even_columns=True, align=True)
    for name, label, _ in presets():
        values = optimization_settings.property_values_of(
            preset(name, machine.device, machine.environment)
        )
        button = grid.operator(
            TESSERA_OT_use_preset.bl_idname, text=label, depress=values == present
        )
        cast(TESSERA_OT_use_preset, button).preset = name.upper()


def _draw_option(
    layout: UILayout,
    group: TESSERA_PG_optimizations,
    name: str,
    *,
    data: TESSERA_PG_optimizations | TESSERA_PG_settings,
    width_px: float,
) -> None:
    machine = _judge(group, name)
    if not machine.shows(name):
        return
    is_chosen_automatically = group.automatic and name not in FREE_NAMES
    value, default = getattr(data, name), FIELDS[name].default
    reason = machine.why_not(name)
    row = layout.row()
    row.active = not (reason or is_chosen_automatically)
    if not isinstance(default, Enum):
        row.enabled = not reason or value != default  # what is set can always be taken back
        row.prop(data, name)
    else:
        row.enabled = not reason or value != default.name
        row.menu(menu_name(name), text=_choice_text(name, value))
        reason = reason or machine.why_not(f"{name}.{value.lower()}")
    if reason and not is_chosen_automatically:
        draw_text(layout, reason, width_px=width_px, icon="INFO")


def _machine() -> "Machine":
    from ..optimization_machine import machine_of

    return machine_of(session.ready())


def _judge(group: TESSERA_PG_optimizations, option: str) -> "Machine":
    from ..optimization_machine import computing

    return computing(_machine(), option, cpu_only=group.cpu_only)


def _choice_text(option: str, choice: str) -> str:
    labels = {key.name: about["label"] for key, about in FIELDS[option].metadata["choices"].items()}
    return f"{FIELDS[option].metadata['label']}: {labels[choice]}"


def _draw_last_job(layout: UILayout, *, width_px: float) -> None:
    current = session.current()
    result = current.last_result if current is not None else None
    if result is None:
        return
    box = layout.box().column(align=True)
    box.label(text="Last Job")
    for line in result.applied:
        draw_text(box, applied_text(line), width_px=width_px, icon="CHECKMARK")
    for sentence in result.skipped:
        draw_text(box, sentence, width_px=width_px, icon="INFO")
    for note in result.notes:
        draw_text(box, note, width_px=width_px, icon="INFO")


def applied_text(line: str) -> str:
    """Return "name: value", as the generator says it, with the names that the panel shows."""
    name, _, value = line.partition(": ")
    if name not in FIELDS:
        return line
    label = Optimizations.label_of(name)
    if f"{name}.{value}" in Optimizations.choices_of(name):
        value = Optimizations.metadata_of(f"{name}.{value}")["label"]
    return label if value == "on" else f"{label}: {value}"
