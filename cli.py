# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `blender --command tessera generate|list-models|info`. Side: Blender.

Exit status: 0 done, 1 it could not be done, 2 it was asked for wrongly. Results go to the standard
output, sentences about errors and notes to the standard error.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import Field
from enum import Enum
from pathlib import Path
from typing import Any

import bpy

from . import calls, models, optimization_settings, preferences, runtime
from .delivery import GenerationResult
from .generation_requests import plan_of
from .generator_process.client import GeneratorProcess
from .generator_process.errors import (
    CancelledError,
    InvalidRequestError,
    StartError,
    TesseraError,
)
from .generator_process.messages import Ready, Scheduler, SeamlessAxes
from .metadata import version
from .prompting.structures import STRUCTURES, TOKENS

COMMAND = "tessera"
DONE, FAILED, WRONG = 0, 1, 2

_STARTER_FOLDER = Path(__file__).parent / "starter_model"
_READY_TIMEOUT_S = 120.0
_SWITCH = {"on": True, "off": False}


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status.

    Args:
        arguments: Those after the name of the command, such as `["info", "--json"]`.
    """
    try:
        options = _parser().parse_args(list(arguments))
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else WRONG
    try:
        return options.run(options)
    except InvalidRequestError as error:
        return _complain(error, WRONG)
    except TesseraError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return _complain(CancelledError("The job was cancelled."), FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"blender --command {COMMAND}", description="Generate images.", allow_abbrev=False
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    generate = commands.add_parser("generate", help="make images from a prompt", allow_abbrev=False)
    _add_generate_options(generate)
    for name, run, text in (
        ("list-models", _list_models, "list the models on this machine"),
        ("info", _info, "tell what images are made with"),
    ):
        found = commands.add_parser(name, help=text, allow_abbrev=False)
        found.add_argument("--json", action="store_true", help="print one JSON value")
        found.set_defaults(run=run)
    return parser


def _add_generate_options(parser: argparse.ArgumentParser) -> None:
    # Options without a default here are settings: left out, they keep the scene's value.
    settings = parser.add_argument_group("settings", argument_default=argparse.SUPPRESS)
    _add_prompt_options(settings)
    settings.add_argument("--width", type=int, metavar="PIXELS")
    settings.add_argument("--height", type=int, metavar="PIXELS")
    settings.add_argument("--seed", help="a whole number or any word")
    settings.add_argument("--images", type=int, metavar="NUMBER", dest="number_of_images")
    settings.add_argument("--steps", type=int, metavar="NUMBER")
    settings.add_argument("--guidance", type=float, metavar="NUMBER")
    settings.add_argument("--scheduler", type=_upper, choices=[item.name for item in Scheduler])
    settings.add_argument("--seamless", type=_upper, choices=[item.name for item in SeamlessAxes])
    settings.add_argument("--model", help="what list-models prints first in each line")
    optimizations = parser.add_argument_group(
        "optimizations",
        "left out, they are as in the preferences",
        argument_default=argparse.SUPPRESS,
    )
    for name, field in optimization_settings.FIELDS.items():
        optimizations.add_argument(_option(name), **_argument_of(field))
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        help="a .png file, numbered if there are several images, or a folder that exists",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    parser.add_argument("--json", action="store_true", help="print one JSON value")
    parser.set_defaults(run=_generate)


def _add_prompt_options(settings: "argparse._ArgumentGroup") -> None:
    prompts = settings.add_mutually_exclusive_group(required=True)
    prompts.add_argument("--prompt", help="what the image should show")
    prompts.add_argument(
        "--prompts-text",
        metavar="NAME",
        help="a text of the opened .blend file with a prompt in each line",
    )
    prompts.add_argument(
        "--prompts-file", type=Path, metavar="FILE", help="a text file with a prompt in each line"
    )
    settings.add_argument("--negative-prompt", help="what it should not show")
    settings.add_argument(
        "--structure", type=_upper, choices=list(STRUCTURES), dest="prompt_structure"
    )
    for token in TOKENS.values():
        choices = ", ".join(token.choices)
        settings.add_argument(
            _option(token.name), metavar="WORDS", help=f"such as: {choices}; or words of your own"
        )
    settings.add_argument("--style", metavar="NAME", help="one of the list in the preferences")


def _option(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def _argument_of(field: "Field[Any]") -> dict[str, Any]:
    """Return how an optimization is read, made from what is declared about it."""
    read: dict[str, Any] = {"help": field.metadata["description"].replace("%", "%%")}
    if isinstance(field.default, Enum):
        choices = [choice.name for choice in field.metadata["choices"]]
        return read | {"type": _upper, "choices": choices}
    if isinstance(field.default, bool):
        return read | {"type": _switch, "metavar": "{on,off}"}
    return read | {"type": type(field.default), "metavar": "NUMBER"}


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise argparse.ArgumentTypeError(f"invalid choice: '{text}' (choose from 'on', 'off')")
    return _SWITCH[text.lower()]


def _upper(text: str) -> str:
    return text.upper().replace("-", "_")


def _generate(options: argparse.Namespace) -> int:
    settings = {key: value for key, value in vars(options).items() if key in _setting_names()}
    output: Path = options.output
    _check_output(output)
    if "prompts_file" in options:
        settings["prompts_text"] = _text_of(options.prompts_file)
    values = calls.values_of_script({**settings, "preview": "NONE"})
    planned = plan_of(values)
    seeds = [seed for one in planned for seed in one.request.sampling.seeds]
    paths = _files(output, len(seeds))
    if not options.overwrite:
        _check_free(paths)
    result = calls.submit(planned, values).wait()
    # By their seeds: an image that failed leaves its number free.
    path_of_seed = dict(zip(seeds, paths, strict=True)) if paths else {}
    files = _save(result, output, path_of_seed)
    for sentence in (*result.notes, *result.skipped, *result.failed):
        _say(sentence)
    if options.json:
        _print_json(
            {
                "files": [str(path) for path in files],
                "seeds": [str(seed) for seed in result.seeds],
                "model": result.model,
                "applied": result.applied,
                "skipped": result.skipped,
                "notes": result.notes,
                "failed": result.failed,
                "seconds": dict(result.seconds),
            }
        )
    else:
        for path, seed in zip(files, result.seeds, strict=True):
            _print(f"{path}\tseed {seed}")
    return FAILED if result.failed else DONE


def _text_of(path: Path) -> str:
    """Return the name of a text of this session with the lines of a file."""
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(
            f'"{path}" cannot be read as a text file in UTF-8 ({error}).'
        ) from error
    text = bpy.data.texts.new(path.name)
    text.from_string(content)
    return text.name


def _setting_names() -> frozenset[str]:
    from .properties import REQUEST_NAMES

    return frozenset(REQUEST_NAMES)


def _check_output(output: Path) -> None:
    """Find out before the work whether its result can be written."""
    if output.is_dir():
        return
    if output.suffix.lower() != ".png":
        raise InvalidRequestError(
            f'"{output}" is neither a folder nor the name of a PNG file. End it in .png.'
        )
    if not output.absolute().parent.is_dir():
        raise InvalidRequestError(
            f'Folder "{output.absolute().parent}" does not exist. Make it first.'
        )


def _files(output: Path, count: int) -> list[Path]:
    """Return the files to write, none if it is a folder: the images' names decide then."""
    if output.is_dir():
        return []
    path = output.absolute()
    if count <= 1:
        return [path]
    digits = len(str(count))
    return [path.with_stem(f"{path.stem}_{number:0{digits}}") for number in range(1, count + 1)]


def _check_free(files: Sequence[Path]) -> None:
    for path in files:
        if path.exists():
            raise InvalidRequestError(
                f'"{path}" exists. Choose another name, or add --overwrite to replace it.'
            )


def _save(result: GenerationResult, output: Path, path_of_seed: Mapping[int, Path]) -> list[Path]:
    """Write the images to their files, or to names that are free in the user's folder."""
    from .operators.save_image import save

    files: list[Path] = []
    for name, seed in zip(result.images, result.seeds, strict=True):
        path = path_of_seed.get(seed) or _free_path(output.absolute() / bpy.path.clean_name(name))
        save(bpy.data.images[name], path)
        files.append(path)
    return files


def _free_path(stem: Path) -> Path:
    """Return a name in the user's folder that does not hide an earlier image."""
    path, number = stem.with_name(f"{stem.name}.png"), 1
    while path.exists():
        number += 1
        path = stem.with_name(f"{stem.name}_{number}.png")
    return path


def _list_models(options: argparse.Namespace) -> int:
    folders = preferences.model_folders()
    found = models.find_models(folders)
    for model in models.find_incomplete(folders):
        _say(f"{model.text}: {model.missing}")
    if options.json:
        _print_json([{"model": model.text, "name": model.name} for model in found])
    else:
        for model in found:
            _print(f"{model.text}\t{model.name}")
    return DONE


def _info(options: argparse.Namespace) -> int:
    state = runtime.state()
    ready = _start_generator() if state.is_installed else None
    information: dict[str, Any] = {
        "tessera": version(),
        "blender": bpy.app.version_string,
        "generator": state.message,
        "device": ready.device if ready else None,
        "device name": ready.device_name if ready else None,
        "versions": dict(ready.versions) if ready else {},
        "starter model knows": starter_words(),
    }
    if options.json:
        _print_json(information)
        return DONE
    information["versions"] = [" ".join(pair) for pair in ready.versions] if ready else []
    for name, value in information.items():
        if value:
            _print(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
    return DONE


def starter_words() -> list[str]:
    """Return the words that the starter model was trained on, none if it does not tell them."""
    path = _STARTER_FOLDER / "starter.json"
    if not path.is_file():
        return []
    words: list[str] = json.loads(path.read_text(encoding="utf-8"))["words"]
    return words


def _start_generator() -> Ready:
    """Start a generator, hear what it says of itself, and end it."""
    command = runtime.generator_command()
    client = GeneratorProcess(command, start_timeout_s=_READY_TIMEOUT_S)
    try:
        client.start()
        end_s = time.monotonic() + _READY_TIMEOUT_S
        while client.ready is None and client.pid is not None and time.monotonic() < end_s:
            client.wait(0.1)
            client.poll()
        ready = client.ready
    finally:
        client.close()
    if ready is None:
        raise StartError(
            f"The generator process did not start. {_last_line(command.log_path)}"
            f' More is in "{command.log_path}".'
        )
    return ready


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return "It said nothing."
    return next((line.strip() for line in reversed(lines) if line.strip()), "It said nothing.")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _print_json(value: object) -> None:
    _print(json.dumps(value, ensure_ascii=False))


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def _complain(error: TesseraError, status: int) -> int:
    _say(str(error))
    return status
