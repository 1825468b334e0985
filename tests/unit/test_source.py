"""Guards on the source itself: each stands for a failure that others had."""

import ast
import functools
import re
import tomllib
from pathlib import Path
from typing import get_args

from tessera.generator_process import messages

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_FOLDERS = {"tests", "dist", "out"}
HEAVY = {"torch", "diffusers", "transformers", "accelerate", "safetensors", "PIL", "scipy"}
BLENDER = {"bpy", "bpy_extras", "bmesh", "mathutils", "gpu", "blf", "addon_utils", "_bpy"}
BOTH_SIDES = (
    "__init__.py",
    "optimization_choices.py",
    "optimization_presets.py",
    "optimization_rules.py",
    "optimizations.py",
)
BOTH_SIDES_OF_GENERATOR = (
    "messages.py",
    "wire.py",
    "errors.py",
    "seeds.py",
    "client.py",
    "jobs.py",
)
SHIPPED_FOLDERS = ("generator_process", "history", "operators", "panels", "prompting")


def _project_files() -> list[Path]:
    found = list(ROOT.glob("*.py"))
    for folder in ROOT.iterdir():
        if folder.is_dir() and folder.name not in SKIPPED_FOLDERS and folder.name[0] != ".":
            found += folder.rglob("*.py")
    return sorted(found)


SOURCES = _project_files()
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _is_shipped(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return parts[0] in SHIPPED_FOLDERS or (len(parts) == 1 and parts[0] != "dev.py")


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def imported_modules(tree: ast.AST) -> set[str]:
    """Return the top-level names that are imported absolutely, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def names_from_pickle(tree: ast.AST) -> set[str]:
    """Return what is imported from pickle, "pickle" itself for the whole module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names} & {"pickle"}
        elif isinstance(node, ast.ImportFrom) and node.module == "pickle":
            names |= {alias.name for alias in node.names}
    return names


def forbidden_modules(relative: Path) -> set[str]:
    """Return what this file must not import: the boundary between the two processes."""
    top = relative.parts[0]
    if top == "generator_process":
        both = len(relative.parts) == 2 and relative.name in BOTH_SIDES_OF_GENERATOR
        return BLENDER | HEAVY if both else BLENDER
    if relative.as_posix() in BOTH_SIDES or top == "prompting":
        return BLENDER | HEAVY
    if top in {"scripts", "benchmarks", "dev.py"}:
        return set()
    return HEAVY


def unsafe_calls(tree: ast.AST) -> list[str]:
    """Return the calls that run a shell or code out of data."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec", "__import__"}:
            found.append(f"line {node.lineno}: {node.func.id}()")
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"system", "popen"}:
            found.append(f"line {node.lineno}: .{node.func.attr}()")
        for keyword in node.keywords:
            value = keyword.value
            if keyword.arg == "shell" and not (
                isinstance(value, ast.Constant) and value.value is False
            ):
                found.append(f"line {node.lineno}: shell=")
    return found


SHIPPED = [path for path in SOURCES if _is_shipped(path)]


def test_imports_keep_to_the_process_boundary():
    wrong = {
        _name(path): modules
        for path in SOURCES
        if (modules := imported_modules(_tree(path)) & forbidden_modules(path.relative_to(ROOT)))
    }
    assert wrong == {}


def test_shipped_files_use_relative_imports_only():
    """P002: the add-on works under any package name."""
    siblings = {p.stem for p in ROOT.glob("*.py")} | set(SHIPPED_FOLDERS) | {"tessera", "bl_ext"}
    siblings -= {"__init__"}
    wrong = {
        _name(path): modules
        for path in SHIPPED
        if (modules := imported_modules(_tree(path)) & siblings)
    }
    assert wrong == {}, "import them relatively"


def test_shipped_files_name_their_licence_and_their_side():
    for path in SHIPPED:
        first = "# SPDX-License-Identifier: GPL-3.0-or-later\n"
        assert _text(path).startswith(first), _name(path)
        docstring = ast.get_docstring(_tree(path)) or ""
        assert re.search(r"Side: (both|Blender|generator)\.", docstring), f"side of {_name(path)}"


def test_files_have_a_docstring_and_at_most_400_lines():
    long = {_name(p): n for p in [*SOURCES, *TESTS] if (n := len(_text(p).splitlines())) > 400}
    assert long == {}, "split them by subject"
    bare = [
        _name(path)
        for path in [*SOURCES, *TESTS]
        if _text(path).strip() and not ast.get_docstring(_tree(path))
    ]
    assert bare == [], "say what the file is for"


def test_no_shell_and_no_code_out_of_data():
    """P010: a space in a path cuts a command line; a frame or a model must not run code."""
    for path in SOURCES:
        assert unsafe_calls(_tree(path)) == [], _name(path)
        modules = imported_modules(_tree(path))
        assert not modules & {"marshal", "shelve", "dill", "cloudpickle"}, _name(path)
        assert names_from_pickle(_tree(path)) <= {"UnpicklingError"}, _name(path)


def test_no_bgl():
    """P021: Blender 5.0 has no bgl."""
    assert [_name(path) for path in SOURCES if "bgl" in imported_modules(_tree(path))] == []


def test_no_path_of_one_machine():
    pattern = re.compile(r"(?<![\w.])/(?:work|home|root|Users|opt|mnt)/\S*")
    wrong = {_name(path): found for path in SOURCES if (found := pattern.findall(_text(path)))}
    assert wrong == {}


def test_guards_see_what_they_forbid():
    tree = ast.parse(
        "import torch.nn\nfrom bpy.types import Panel\nfrom . import x\neval('1')\n"
        "run('ls', shell=True)\nrun('ls', shell=False)\nos.system('ls')\n"
    )
    assert imported_modules(tree) == {"torch", "bpy"}
    assert len(unsafe_calls(tree)) == 3
    assert "torch" in forbidden_modules(Path("operators/generate.py"))
    assert "torch" not in forbidden_modules(Path("generator_process/pipelines.py"))
    assert "bpy" in forbidden_modules(Path("generator_process/pipelines.py"))
    assert "torch" in forbidden_modules(Path("generator_process/wire.py"))


def test_manifest_version_has_a_changelog_section():
    manifest = tomllib.loads((ROOT / "blender_manifest.toml").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[([^]]+)\]", changelog, flags=re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert manifest["version"] in sections


def test_requirements_are_pinned():
    """P007: an unpinned version breaks the installation later in time."""
    files = sorted((ROOT / "requirements").rglob("*.txt"))
    assert files
    for path in files:
        for line in path.read_text(encoding="utf-8").splitlines():
            requirement = line.partition("#")[0].strip()
            assert not requirement or re.fullmatch(r"[\w.\-\[\]]+==[\w.+]+", requirement), line


def _classes(folder: Path) -> list[ast.ClassDef]:
    found: list[ast.ClassDef] = []
    for path in sorted(folder.rglob("*.py")):
        found += [node for node in ast.walk(_tree(path)) if isinstance(node, ast.ClassDef)]
    return found


def _constant(class_: ast.ClassDef, name: str) -> str | None:
    for node in class_.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and name in {ast.unparse(target) for target in node.targets}
        ):
            return str(node.value.value)
    return None


def test_operator_class_names_are_what_blender_makes_of_their_id():
    """Blender registers `class Generate` as TESSERA_OT_generate without a word."""
    seen: list[str] = []
    for path in [p for p in SOURCES if _is_shipped(p)]:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef) and (identifier := _constant(node, "bl_idname")):
                if "." not in identifier:
                    continue  # a panel, a menu or the preferences
                prefix, _, rest = identifier.partition(".")
                assert node.name == f"{prefix.upper()}_OT_{rest}"
                assert prefix == "tessera"
                seen.append(identifier)
    assert len(seen) == len(set(seen)), "two operators with one name"


def test_every_request_has_a_task_and_an_operator():
    requests = {class_.__name__ for class_ in get_args(messages.Request)} or {
        messages.Request.__name__
    }
    tasks = (ROOT / "generator_process" / "tasks" / "__init__.py").read_text(encoding="utf-8")
    users = [
        p
        for p in SOURCES
        if p.relative_to(ROOT).parts[0] in {"operators", "generation_requests.py"}
    ]
    makers = "".join(path.read_text(encoding="utf-8") for path in users)
    for name in requests:
        assert re.search(rf"\b{name}:\s", tasks), f"no task for {name}"
        assert re.search(rf"\b{name}\(", makers), f"nothing in Blender makes {name}"
