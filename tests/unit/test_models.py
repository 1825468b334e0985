"""Which models are on this machine. Bug reports P077 and P078."""

import pytest
from tessera.generator_process.errors import InvalidRequestError
from tessera.generator_process.messages import ModelRef, ModelSource
from tessera.generator_process.model_files import hub_cache
from tessera.models import find_models, model_name, model_ref, model_text


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def _model(folder):
    folder.mkdir(parents=True)
    (folder / "model_index.json").write_text("{}")
    return folder


def test_text_stands_for_a_model(tmp_path):
    assert model_ref("") == model_ref(" starter ") == ModelRef()
    folder = str(tmp_path / "模型 (1)")
    assert model_ref(folder) == ModelRef(source=ModelSource.FOLDER, location=folder)
    assert model_ref("me/sd-1.5") == ModelRef(source=ModelSource.HUB, location="me/sd-1.5")
    for text in ("", folder, "me/sd-1.5"):
        assert model_ref(model_text(model_ref(text))) == model_ref(text)
    assert model_name(model_ref(folder)) == "模型 (1)"


@pytest.mark.parametrize("text", ["sd", "a/b/c", "../x", "a b/c"])
def test_other_text_is_refused(text):
    with pytest.raises(InvalidRequestError, match="is not known"):
        model_ref(text)


def test_finds_folders_and_the_cache(tmp_path):
    one = _model(tmp_path / "models" / "one")
    (tmp_path / "models" / "empty").mkdir()
    alone = _model(tmp_path / "alone")
    _model(tmp_path / "hub" / "models--me--sd" / "snapshots" / "abc")  # no refs/main
    (tmp_path / "hub" / "models--me--incomplete" / "snapshots" / "abc").mkdir(parents=True)
    (tmp_path / "hub" / "datasets--me--data" / "snapshots").mkdir(parents=True)
    folders = [str(tmp_path / "models"), str(alone), str(alone), str(tmp_path / "missing"), ""]
    assert [model.text for model in find_models(folders)] == [
        "Starter",
        str(one),
        str(alone),
        "me/sd",
    ]


def test_the_starter_model_is_always_there():
    assert [model.name for model in find_models()] == ["Starter"]


def test_the_cache_is_where_the_hub_keeps_it(monkeypatch, tmp_path):
    assert hub_cache() == tmp_path / "hub"
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert hub_cache() == tmp_path / "home" / "hub"
