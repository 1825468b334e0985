"""One run of all scenarios in a Blender with windows, whose outcomes the tests look at."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from scripts.devtools import window  # noqa: E402

LIMIT_S = 600.0


@dataclass
class Run:
    """`results`: outcome and reason of each scenario. `log`: all that Blender printed."""

    results: dict[str, list[str]]
    figures: dict[str, float]
    log: str


@pytest.fixture(scope="session")
def window_run() -> Run:
    if "TESSERA_WINDOW_ARCHIVE" not in os.environ:
        pytest.skip("run by: python3 dev.py test window")
    archive = Path(os.environ["TESSERA_WINDOW_ARCHIVE"])
    out = Path(os.environ["TESSERA_WINDOW_OUT"])
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.png"), out / "results.json"):
        old.unlink(missing_ok=True)
    shared = {archive.parent: "/archive", out: "/out"}
    variables = {
        "TESSERA_WINDOW_ARCHIVE": f"/archive/{archive.name}",
        "TESSERA_WINDOW_OUT": "/out",
        "TESSERA_WINDOW_LIMIT_S": f"{LIMIT_S - 30:.0f}",
        "TESSERA_PYTHON": "/usr/bin/python3",
        "BLENDER_USER_RESOURCES": "/tmp/blender",
        "MESA_SHADER_CACHE_DIR": "/out/shaders",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    python = os.environ.get("TESSERA_PYTHON")
    folders = window.folders_of_python(Path(python)) if python else []
    if folders:
        shared |= {folder: str(folder) for folder in folders}
        variables["TESSERA_WINDOW_PYTHON"] = python
    log = out / "blender.log"
    script = f"{window.CHECKOUT}/tests/window/scenarios.py"
    assigned = [f"{name}={value}" for name, value in variables.items()]
    with log.open("w", encoding="utf-8") as file:
        status = window.run(
            Path(os.environ["TESSERA_WINDOW_SYSTEM"]),
            ["env", *assigned, "blender", "--factory-startup", "-P", script],
            shared=shared,
            timeout_s=LIMIT_S,
            output=file,
        )
    text = log.read_text(encoding="utf-8", errors="replace")
    results = out / "results.json"
    assert results.is_file(), f"Blender ended with {status}:\n{text[-3000:]}"
    return Run(**json.loads(results.read_text(encoding="utf-8")), log=text)
