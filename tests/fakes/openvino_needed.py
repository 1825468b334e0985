# SPDX-License-Identifier: GPL-3.0-or-later
"""Imported first by the tests that need OpenVINO, which is optional."""

import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

if importlib.util.find_spec("openvino") is None:
    if "generator" in os.environ.get("TESSERA_REQUIRE", ""):
        raise RuntimeError("the generator suite needs openvino")
    pytest.skip("needs openvino", allow_module_level=True)
