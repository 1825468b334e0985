# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Install and remove the runtime environment of the generator. Side: Blender."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import bpy
from bpy.props import BoolProperty, EnumProperty, StringProperty
from bpy.types import Context, Event, Operator

from .. import runtime, session
from ..generator_process.errors import CancelledError, InvalidRequestError, TesseraError
from ..preferences import OPENVINO_DESCRIPTION

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems

    from ..installation.install import Installation
    from ..installation.install_plan import Options

_LOOK_S = 0.25


class TESSERA_OT_install_runtime(Operator):
    """Download PyTorch and diffusers into Tessera's own folder, about 1 GB or more"""

    bl_idname = "tessera.install_runtime"
    bl_label = "Install Generator"

    torch: EnumProperty(
        name="PyTorch",
        description="Which build of PyTorch to install",
        items=[
            ("AUTO", "Automatic", "The one for this computer's GPU and driver"),
            ("CPU", "CPU", "The smallest one, which uses no GPU"),
            ("XPU", "Intel GPU", "The one for Intel Arc and newer Intel GPUs"),
            ("INDEX", "Package Index", "What the package index that pip is set up with offers"),
        ],
    )
    wheel_folder: StringProperty(
        name="Wheel Folder",
        description="A folder with all packages as wheels, to install without the network",
        subtype="DIR_PATH",
    )
    openvino: BoolProperty(
        name="OpenVINO",
        description=OPENVINO_DESCRIPTION,
        default=False,
        options={"SKIP_SAVE"},
    )

    if TYPE_CHECKING:
        torch: str
        wheel_folder: str
        openvino: bool

    @classmethod
    def poll(cls, _context: Context) -> bool:
        from ..installation import install

        if install.is_running():
            cls.poll_message_set("The generator is being installed")
            return False
        return True

    def invoke(self, _context: Context, _event: Event) -> "set[OperatorReturnItems]":
        """Start and return at once."""
        try:
            self._start()
        except TesseraError as error:
            return self._fail(error)
        bpy.app.timers.register(_watch, first_interval=_LOOK_S, persistent=True)
        return {"FINISHED"}

    def execute(self, _context: Context) -> "set[OperatorReturnItems]":
        """Start and wait for the end."""
        try:
            running = self._start()
        except TesseraError as error:
            return self._fail(error)
        try:
            while not running.wait(_LOOK_S):
                pass
        except KeyboardInterrupt:
            running.cancel()
            running.wait(10.0)
        if running.error is not None:
            return self._fail(running.error)
        self.report({"INFO"}, "The generator is installed")
        return {"FINISHED"}

    def _start(self) -> "Installation":
        from ..installation import install, interpreters

        options = self._options()
        session.get().release()
        path = os.environ.get("PATH", "")
        folders = tuple(Path(folder) for folder in path.split(os.pathsep) if folder)
        installation = install.Installation(
            runtime.user_folder(),
            runtime.log_folder() / "install.log",
            interpreters.this_place(folders),
            options,
        )
        install.start(installation)
        return installation

    def _options(self) -> "Options":
        from ..installation.install_plan import Options, TorchBuild

        if self.wheel_folder:
            folder = Path(bpy.path.abspath(self.wheel_folder))
            if not folder.is_dir():
                raise InvalidRequestError(
                    f"The wheel folder {folder} does not exist. Choose another one."
                )
            return Options(wheel_folder=folder, openvino=self.openvino)
        if not bpy.app.online_access:
            raise InvalidRequestError(
                "Installing the generator needs the network. Turn on Allow Online Access in"
                " Preferences > System, or choose a folder with wheels."
            )
        import shutil

        uv = shutil.which("uv")
        return Options(
            torch=TorchBuild[self.torch], uv=Path(uv) if uv else None, openvino=self.openvino
        )

    def _fail(self, error: TesseraError) -> "set[OperatorReturnItems]":
        self.report({"WARNING" if isinstance(error, CancelledError) else "ERROR"}, str(error))
        return {"CANCELLED"}


class TESSERA_OT_cancel_installation(Operator):
    """Stop the installation. What was installed before stays"""

    bl_idname = "tessera.cancel_installation"
    bl_label = "Cancel Installation"

    @classmethod
    def poll(cls, _context: Context) -> bool:
        from ..installation import install

        if not install.is_running():
            cls.poll_message_set("Nothing is being installed")
            return False
        return True

    def execute(self, _context: Context) -> "set[OperatorReturnItems]":
        from ..installation import install

        installation = install.current()
        if installation is not None:
            installation.cancel()
        return {"FINISHED"}


class TESSERA_OT_remove_runtime(Operator):
    """Delete the generator's packages. Models and images stay"""

    bl_idname = "tessera.remove_runtime"
    bl_label = "Remove Generator"

    @classmethod
    def poll(cls, _context: Context) -> bool:
        from ..installation import install

        if install.is_running():
            cls.poll_message_set("The generator is being installed")
            return False
        if not runtime.runtime_folder().exists():
            cls.poll_message_set("Tessera has not installed a generator")
            return False
        return True

    def invoke(self, context: Context, event: Event) -> "set[OperatorReturnItems]":
        """Ask first."""
        return context.window_manager.invoke_confirm(self, event)

    def execute(self, _context: Context) -> "set[OperatorReturnItems]":
        from ..installation import install

        session.get().release()
        try:
            install.remove(runtime.user_folder())
        except TesseraError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


def stop() -> None:
    """Cancel what is running and stop watching it. Called when Tessera is disabled."""
    if bpy.app.timers.is_registered(_watch):
        bpy.app.timers.unregister(_watch)
    from ..installation import install

    install.stop()


def _watch() -> float | None:
    """Show the progress in the user interface until the end."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type in {"IMAGE_EDITOR", "NODE_EDITOR", "PREFERENCES"}:
                area.tag_redraw()
    from ..installation import install

    return _LOOK_S if install.is_running() else None
