# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that Tessera raises itself. Side: both.

* TesseraError
  * InvalidRequestError
  * CancelledError
  * GeneratorError
    * NotInstalledError
    * StartError
    * CrashedError
    * ProtocolError
    * ModelError
    * OutOfMemoryError
    * InvalidResultError
"""

from enum import Enum


class TesseraError(Exception):
    """Base class. The text is shown to the user as it is."""


class InvalidRequestError(TesseraError):
    """A setting is out of range. The user can correct it."""


class CancelledError(TesseraError):
    """The job was cancelled. Ends a task inside the generator; crosses as `Cancelled`."""


class GeneratorError(TesseraError):
    """The generator process could not do what was asked."""


class NotInstalledError(GeneratorError):
    """The runtime environment is missing or lacks a package."""


class StartError(GeneratorError):
    """The generator process did not start, or did not become ready."""


class CrashedError(GeneratorError):
    """The generator process ended while it had a job."""


class ProtocolError(GeneratorError):
    """Bytes arrived that are not a message of this version."""


class ModelError(GeneratorError):
    """The model is missing, incomplete or of a kind that cannot do the task."""


class OutOfMemoryError(GeneratorError):
    """The device has too little memory for this request."""


class InvalidResultError(GeneratorError):
    """The model produced an image that is not one: NaN, infinite or entirely black."""


class ErrorKind(Enum):
    """The cause of a `Failed` event: one member for each class that can cross the boundary."""

    INVALID_REQUEST = "INVALID_REQUEST"
    GENERATOR = "GENERATOR"
    NOT_INSTALLED = "NOT_INSTALLED"
    START = "START"
    CRASHED = "CRASHED"
    PROTOCOL = "PROTOCOL"
    MODEL = "MODEL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    INVALID_RESULT = "INVALID_RESULT"


ERROR_OF_KIND: dict[ErrorKind, type[TesseraError]] = {
    ErrorKind.INVALID_REQUEST: InvalidRequestError,
    ErrorKind.GENERATOR: GeneratorError,
    ErrorKind.NOT_INSTALLED: NotInstalledError,
    ErrorKind.START: StartError,
    ErrorKind.CRASHED: CrashedError,
    ErrorKind.PROTOCOL: ProtocolError,
    ErrorKind.MODEL: ModelError,
    ErrorKind.OUT_OF_MEMORY: OutOfMemoryError,
    ErrorKind.INVALID_RESULT: InvalidResultError,
}

_KIND_OF_ERROR = {error: kind for kind, error in ERROR_OF_KIND.items()}


def kind_of(error: TesseraError) -> ErrorKind:
    """Return the kind that stands for this error's class on the wire."""
    return _KIND_OF_ERROR.get(type(error), ErrorKind.GENERATOR)
