# SPDX-License-Identifier: GPL-3.0-or-later
"""One module for each task, and the table by which requests find theirs. Side: generator."""

from collections.abc import Callable
from typing import Any

from ..messages import Finished, TextToImage
from . import text_to_image

TASKS: dict[type, Callable[[Any, Any, Any], Finished]] = {
    TextToImage: text_to_image.run,
}
"""Task by class of request. A task takes (request, context, resources), emits through the context
and returns its terminal event."""
