"""Tessera in a real window: what scenarios.py does, and what Blender complains about."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.window

COMPLAINTS = re.compile(
    r"Traceback \(most recent|Python script error|property not found|unknown operator"
    r"|search for unknown (menu|panel)|uiItem|UILayout\.[a-z_]+\(\): "
)
"""How Blender tells that a panel asks for what there is not. It goes on drawing all the same."""


def scenario_names() -> list[str]:
    """Return what scenarios.py runs. It cannot be imported without Blender."""
    text = Path(__file__).with_name("scenarios.py").read_text(encoding="utf-8")
    run = ast.parse(text).body[-1].body[0].value
    return [name.id for name in run.args[0].elts]


@pytest.mark.parametrize("name", scenario_names())
def test_scenario(window_run, name):
    assert name in window_run.results, f"Blender ended before it:\n{window_run.log[-3000:]}"
    outcome, reason = window_run.results[name]
    if outcome == "skipped":
        pytest.skip(reason)
    assert outcome == "passed", reason


def test_blender_complains_about_nothing(window_run):
    found = [line for line in window_run.log.splitlines() if COMPLAINTS.search(line)]
    assert found == []


def test_pumping_costs_little(window_run):
    """The user interface waits for a pump: half of them take less than 50 ms of CPU time."""
    assert window_run.figures["pump_cpu_median_ms"] < 50.0, window_run.figures
