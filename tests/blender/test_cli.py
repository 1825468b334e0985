"""The command's handler, called as Blender calls it, with a generator that answers at once."""

import json

import bpy
import numpy as np
import pytest
import tessera
from fakes.painter import pixels_of
from tessera import cli, metadata, png, runtime
from tessera.generator_process.errors import ErrorKind
from tessera.generator_process.messages import Failed, SeamlessAxes


def load(path):
    """`uint8` (height, width, 3), row 0 at the top, as Blender reads the file."""
    image = bpy.data.images.load(str(path))
    flat = np.empty(image.size[0] * image.size[1] * 4, np.float32)
    image.pixels.foreach_get(flat)
    pixels = np.rint(flat * 255).astype(np.uint8).reshape(image.size[1], image.size[0], 4)
    return pixels[::-1, :, :3]


def generate(output, *arguments):
    fixed = ["--prompt", "green grass", "--width", "20", "--height", "12", "--output", str(output)]
    return cli.main(["generate", *fixed, *arguments])


def test_generate(painter, tmp_path, capsys):
    path = tmp_path / "Gras (ü) & 1.png"
    assert generate(path, "--seed", "7", "--seamless", "x", "--guidance", "2.5") == 0
    assert capsys.readouterr().out == f"{path}\tseed 7\n"
    assert (load(path) == pixels_of(7, 20, 12)).all()
    text = png.read_text(path.read_bytes())
    assert text["parameters"].startswith("green grass\nSteps: ")
    assert "Seed: 7, Size: 20x12" in text["parameters"]
    settings = metadata.ImageSettings.from_json(text["tessera"])
    assert (settings.seamless, settings.guidance) == ("X", 2.5)


def test_every_option_arrives(painter, tmp_path):
    arguments = ["--negative-prompt", "snow", "--steps", "3", "--scheduler", "euler-discrete"]
    arguments += ["--images", "2", "--batch-size", "2", "--seamless", "OFF", "--model", "a/b"]
    assert generate(tmp_path, *arguments, "--seed", "5") == 0
    (request,) = painter.sent
    sampling = request.sampling
    assert (sampling.negative_prompt, sampling.steps) == ("snow", 3)
    assert sampling.scheduler.name == "EULER_DISCRETE"
    assert sampling.seamless is SeamlessAxes.OFF
    assert sampling.seeds == (5, 6)
    assert request.model.location == "a/b"
    assert request.optimizations.batch_size == 2


def test_what_is_left_out_comes_from_the_scene(painter, tmp_path):
    bpy.context.scene.tessera.steps = 9
    generate(tmp_path / "one.png")
    assert painter.sent[0].sampling.steps == 9


def test_several_images_are_numbered(painter, tmp_path, capsys):
    assert generate(tmp_path / "grass.png", "--images", "3", "--seed", "4", "--json") == 0
    names = ["grass_1.png", "grass_2.png", "grass_3.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    said = json.loads(capsys.readouterr().out)
    assert said["files"] == [str(tmp_path / name) for name in names]
    assert said["seeds"] == ["4", "5", "6"]
    assert said["notes"] == ["A note."]
    assert (load(said["files"][2]) == pixels_of(6, 20, 12)).all()


def test_a_file_is_kept_unless_it_may_be_replaced(painter, tmp_path, capsys):
    path = tmp_path / "grass.png"
    numbered = tmp_path / "grass_2.png"
    for existing in (path, numbered):
        existing.write_bytes(b"mine")
    assert generate(path, "--seed", "3") == 2
    assert f'"{path}" exists. Choose another name, or add --overwrite' in capsys.readouterr().err
    assert generate(path, "--images", "2") == 2
    assert f'"{numbered}" exists.' in capsys.readouterr().err
    assert painter.sent == []
    assert path.read_bytes() == numbered.read_bytes() == b"mine"
    path.write_bytes(png.encode(pixels_of(1, 4, 4), {}))
    assert generate(path, "--seed", "3", "--overwrite") == 0
    assert (load(path) == pixels_of(3, 20, 12)).all()


def test_a_folder_gets_names_that_are_free(painter, tmp_path):
    for _ in range(2):
        assert generate(tmp_path, "--seed", "3") == 0
        bpy.data.images.remove(bpy.data.images["green grass 3"])  # as in a new Blender
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "green_grass_3.png",
        "green_grass_3_2.png",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--output", "picture.jpg"], '"picture.jpg" is neither a folder nor the name of a PNG'),
        (["--output", "no/such/folder/a.png"], "does not exist. Make it first."),
        (["--output", "a.png", "--width", "7"], "Width 7 is out of range. Use a value from 8"),
        (["--output", "a.png", "--images", "0"], "Number of images 0 is out of range."),
        (["--output", "a.png", "--steps", "many"], "invalid int value: 'many'"),
        (["--output", "a.png", "--scheduler", "best"], "invalid choice: 'BEST'"),
        ([], "the following arguments are required: --output"),
    ],
)
def test_wrong_requests_end_with_2(painter, capsys, arguments, sentence):
    assert cli.main(["generate", "--prompt", "grass", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert painter.sent == []


@pytest.mark.parametrize("arguments", [[], ["paint"], ["--help"], ["info", "--jso"]])
def test_usage(capsys, arguments):
    assert cli.main(arguments) == (0 if arguments == ["--help"] else 2)
    assert "blender --command tessera" in "".join(capsys.readouterr())


def test_a_failure_ends_with_1(generator, tmp_path, capsys):
    generator.responder = lambda request: [
        Failed(job_id=request.job_id, kind=ErrorKind.MODEL, message="The model is incomplete.")
    ]
    path = tmp_path / "grass.png"
    assert generate(path) == 1
    assert capsys.readouterr().err == "The model is incomplete.\n"
    assert not path.exists()


def test_without_a_generator(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("TESSERA_PYTHON", raising=False)
    monkeypatch.setattr(runtime, "runtime_folder", lambda: tmp_path / "none")
    assert generate(tmp_path / "grass.png") == 1
    assert "The generator needs PyTorch and diffusers" in capsys.readouterr().err
    assert cli.main(["info", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["blender"] == bpy.app.version_string
    assert said["tessera"] == metadata.version()
    assert said["device"] is None
    assert "needs PyTorch" in said["generator"]


def test_info_when_the_interpreter_does_not_start(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TESSERA_PYTHON", "/bin/false")
    monkeypatch.setattr(runtime, "log_folder", lambda: tmp_path)
    assert cli.main(["info"]) == 1
    assert (
        "The generator process did not start. It said nothing. More is in"
        in capsys.readouterr().err
    )


def test_list_models(capsys):
    assert cli.main(["list-models"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "Starter\tStarter"
    assert cli.main(["list-models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"model": "Starter", "name": "Starter"}


def test_starter_words(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "_STARTER_FOLDER", tmp_path)
    assert cli.starter_words() == []
    about = {"name": "Starter", "licence": "GPL", "words": ["brick", "moss"]}
    (tmp_path / "starter.json").write_text(json.dumps(about))
    assert cli.starter_words() == ["brick", "moss"]


def test_command_comes_and_goes_with_the_extension(monkeypatch):
    calls = []
    add, remove = bpy.utils.register_cli_command, bpy.utils.unregister_cli_command

    def adding(name, function):
        handle = add(name, function)
        calls.append(("add", name, function, handle))
        return handle

    def removing(handle):
        calls.append(("remove", handle))
        remove(handle)

    tessera.unregister()
    monkeypatch.setattr(bpy.utils, "register_cli_command", adding)
    monkeypatch.setattr(bpy.utils, "unregister_cli_command", removing)
    tessera.register()
    tessera.unregister()
    (_, name, function, handle), removal = calls
    assert name == "tessera"
    assert function(["list-models"]) == 0
    assert removal == ("remove", handle)
