# SPDX-License-Identifier: GPL-3.0-or-later
"""Load the repository root as the package `tessera`, as the generator process does."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # for `fakes`

_spec = importlib.util.spec_from_file_location(
    "tessera", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
)
_module = importlib.util.module_from_spec(_spec)
sys.modules["tessera"] = _module
_spec.loader.exec_module(_module)
