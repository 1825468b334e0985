# SPDX-License-Identifier: GPL-3.0-or-later
"""The one live object of a Blender session, and the timer that keeps it going. Side: Blender.

Nothing else is imported before it is needed: that would make enabling the add-on slow.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import bpy

if TYPE_CHECKING:
    from .generator_process.client import Client
    from .generator_process.messages import Ready
    from .jobs_session import Session

logger = logging.getLogger(__name__)

_PUMP_INTERVAL_S = 0.05

_timers = bpy.app.timers
_make_client: "Callable[[], Client] | None" = None
_session: "Session | None" = None


def start(make_client: "Callable[[], Client]") -> None:
    """Have a session from now on, ending an earlier one. It is made when it is first asked for."""
    global _make_client  # noqa: PLW0603  the only module state of the add-on
    stop()
    _make_client = make_client


def stop() -> None:
    """End the session. Safe to call twice."""
    global _make_client, _session
    if _timers.is_registered(_tick):
        _timers.unregister(_tick)
    ending, _session, _make_client = _session, None, None
    if ending is not None:
        ending.close()


def get() -> "Session":
    """Return the session, made now if it was not asked for before.

    Raises:
        RuntimeError: Tessera is not registered.
    """
    global _session  # noqa: PLW0603  as above
    if _make_client is None:
        raise RuntimeError("Tessera is not registered")
    if _session is None:
        from .jobs_session import Session

        _session = Session(_make_client, _start_timer)
    return _session


def current() -> "Session | None":
    """Return the session if there has been a reason to make it."""
    return _session


def ready() -> "Ready | None":
    """Return what the generator said of itself when it last started, or None before. Cheap."""
    return _session.ready if _session is not None else None


def is_busy() -> bool:
    """Tell whether a job waits or runs. Cheap, for `poll` and `draw`."""
    return _session is not None and _session.is_busy


def _start_timer() -> None:
    # A module-level function: Blender cannot find a bound method again to unregister it (#139720).
    # Without an event loop it would never be called, and `wait` does its work.
    if _has_event_loop() and not _timers.is_registered(_tick):
        _timers.register(_tick, first_interval=_PUMP_INTERVAL_S, persistent=True)


def _has_event_loop() -> bool:
    return not bpy.app.background


def _tick() -> float | None:
    if _session is None:
        return None
    try:
        _session.pump(may_wait_for_user=True)
    except Exception:  # Blender would stop the timer, and jobs would never end
        logger.exception("a pump was cut short")
    return _PUMP_INTERVAL_S if _session.needs_pump else None
