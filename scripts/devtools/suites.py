# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the test suites, each in its environment, and says what did not run and why."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from . import blender, generator_runtime, packaging, window
from .cache import ROOT, cache_folder, remove
from .console import DevError, run_through, say
from .environments import UNIT

SUITES = ("unit", "generator", "blender", "gui", "package")
ON_REQUEST = ("window",)
"""Not among all suites: setting it up downloads a Debian system, which takes some minutes."""
IN_BLENDER = ("blender", "gui", "package")
TIMEOUT_S = 1800.0
_SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile")
"""The generator suite takes longest, and each of its tests computes on one core."""
_PYTEST_FOUND_NO_TESTS = 5


@dataclass
class Outcome:
    """One suite in one environment. `status` is "passed", "FAILED" or "skipped"."""

    suite: str
    place: str
    status: str
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why: str = ""


def required() -> set[str]:
    """Return the suites in TESSERA_REQUIRE, which must not be skipped."""
    return set(os.environ.get("TESSERA_REQUIRE", "").replace(",", " ").split())


def run(suites: Sequence[str], versions: Sequence[str], pytest_arguments: Sequence[str]) -> int:
    """Run suites and print a table.

    Args:
        suites: Members of `SUITES` or `ON_REQUEST`; all of `SUITES` if empty.
        versions: Blender versions for the suites that need it; all if empty.
        pytest_arguments: Passed on to pytest.

    Returns:
        0 if nothing failed and nothing required was skipped.
    """
    known = (*SUITES, *ON_REQUEST)
    unknown = [name for name in suites if name not in known]
    if unknown:
        raise DevError(f"There is no suite {unknown[0]}. Suites: {', '.join(known)}.")
    chosen = [name for name in known if name in (suites or SUITES)]
    outcomes: list[Outcome] = []
    for name in chosen:
        for version in (versions or blender.VERSIONS) if name in IN_BLENDER else ("",):
            outcomes.append(_guarded(name, version, pytest_arguments))
    for outcome in outcomes:
        if outcome.status == "skipped" and outcome.suite in required():
            ran = [o for o in outcomes if o.suite == outcome.suite and o.status != "skipped"]
            if not ran:
                outcome.status = "FAILED"
                outcome.why += " (TESSERA_REQUIRE names this suite)"
    _print_table(outcomes)
    return 1 if any(outcome.status == "FAILED" for outcome in outcomes) else 0


def _guarded(suite: str, version: str, pytest_arguments: Sequence[str]) -> Outcome:
    """Run one suite; a set-up that fails is the suite's failure, not the end of the run."""
    place = f"Blender {version}" if version else "Python"
    say(f"\n=== {suite}{f', {place}' if version else ''} ===")
    start = time.monotonic()
    try:
        outcome = _run_one(suite, version, place, pytest_arguments)
    except DevError as error:
        say(str(error))
        outcome = Outcome(suite, place, "FAILED", why=str(error).splitlines()[0])
    outcome.seconds = time.monotonic() - start
    return outcome


def _run_one(suite: str, version: str, place: str, pytest_arguments: Sequence[str]) -> Outcome:
    if suite == "window":
        reason = window.why_not()
    elif version:
        reason = blender.environment(version).why_not()
    else:
        reason = UNIT.why_not() if suite == "unit" else None
    if reason:
        say(f"Skipped: {reason}")
        return Outcome(suite, place, "skipped", why=reason)
    if suite == "window":
        return _in_window(pytest_arguments)
    variables: dict[str, str] = {}
    if suite == "unit":
        python = UNIT.ready()
    elif suite == "generator":
        python = generator_runtime.test_environment(generator_runtime.ready()).ready()
        pytest_arguments = (*_SIDE_BY_SIDE, *pytest_arguments)
    else:
        python = blender.environment(version).ready()
        if suite != "gui":
            variables["TESSERA_PYTHON"] = str(generator_runtime.ready())
    return _pytest(suite, place, python, variables, pytest_arguments)


def _in_window(pytest_arguments: Sequence[str]) -> Outcome:
    system = window.ready()
    pictures = cache_folder() / "window"
    with tempfile.TemporaryDirectory(prefix="tessera-build-") as folder:
        variables = {
            "TESSERA_WINDOW_SYSTEM": str(system),
            "TESSERA_WINDOW_ARCHIVE": str(packaging.build(blender.default_version(), Path(folder))),
            "TESSERA_WINDOW_OUT": str(pictures),
            "TESSERA_PYTHON": str(generator_runtime.ready()),
        }
        place = f"Blender {window.blender_version(system)}"
        say(f"{place}. Pictures of its window: {pictures}")
        return _pytest("window", place, UNIT.ready(), variables, pytest_arguments)


def _pytest(
    suite: str,
    place: str,
    python: Path,
    variables: dict[str, str],
    pytest_arguments: Sequence[str],
) -> Outcome:
    report = cache_folder() / "logs" / f"{suite}-{place.replace(' ', '-')}.xml"
    report.parent.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    profile = Path(tempfile.mkdtemp(prefix="tessera-test-"))
    variables = {
        **variables,
        "BLENDER_USER_RESOURCES": str(profile),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(python), "-m", "pytest", f"tests/{suite}", f"--junit-xml={report}"]
    try:
        status = run_through(
            [*command, "-q", *pytest_arguments],
            environment=blender.child_environment(**variables),
            folder=ROOT,
            timeout_s=TIMEOUT_S,
        )
    finally:
        remove(profile)
    outcome = Outcome(suite, place, "passed" if status == 0 else "FAILED")
    _count(report, outcome)
    if status == _PYTEST_FOUND_NO_TESTS:
        outcome.why = "no test was found"
        outcome.status = "skipped" if pytest_arguments else "FAILED"
    elif status == 124:
        outcome.why = f"took longer than {TIMEOUT_S:.0f} s"
    elif status and not outcome.failed:
        outcome.why = f"ended with status {status}"
    elif outcome.status == "passed" and not outcome.passed:
        outcome.status, outcome.why = "skipped", "every test was skipped"
    return outcome


def _count(report: Path, outcome: Outcome) -> None:
    if not report.is_file():
        return
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        count = {
            key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")
        }
        outcome.failed += count["failures"] + count["errors"]
        outcome.skipped += count["skipped"]
        outcome.passed += count["tests"] - sum(
            count[key] for key in ("failures", "errors", "skipped")
        )


def _print_table(outcomes: Sequence[Outcome]) -> None:
    say(
        f"\n{'suite':<10} {'where':<12} {'result':<8}"
        f" {'passed':>6} {'failed':>6} {'skipped':>7} {'s':>6}"
    )
    for o in outcomes:
        say(
            f"{o.suite:<10} {o.place:<12} {o.status:<8} {o.passed:>6} {o.failed:>6}"
            f" {o.skipped:>7} {o.seconds:>6.0f}  {o.why}".rstrip()
        )
    failed = sum(max(o.failed, int(o.status == "FAILED")) for o in outcomes)
    skipped = sum(max(o.skipped, int(o.status == "skipped")) for o in outcomes)
    say(f"\n{sum(o.passed for o in outcomes)} passed, {failed} failed, {skipped} skipped")
