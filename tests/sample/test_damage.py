"""Over 2,000 flipped bits in what is saved: each is named as damage, or nothing read changes."""

import contextlib
import copy
import dataclasses
import json
import pickle
import shutil
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import typer
import xarray

import srmc
from helpers import log_gamma
from srmc import _files as files
from srmc.cli import main, show
from srmc.cli import sample as command
from srmc.sample.stored import Draws

QUICK = {"kernel": "mala", "num_warmup": 100, "num_samples": 100, "num_chains": 2}
QUICK |= {"initial_position": np.zeros(2, np.float32), "progress": False}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run with a checkpoint, and its result in a file."""
    folder = tmp_path_factory.mktemp("saved")
    result = srmc.sample(log_gamma, **QUICK, checkpoint=folder / "run")
    result.save(folder / "result.nc")
    given = {"target": "gaussian", "seed": 3, "step_size": 0.125, "kernel": "mala", "out": folder}
    (folder / "run.toml").write_text(command._toml(given))
    files.seal(folder / "run.toml")
    return result, folder


@contextlib.contextmanager
def naming(named, error=ValueError):
    """Inside, an error is counted, and must say that the file is damaged."""
    try:
        yield
    except error as caught:
        named.append(str(caught))


def flips(path, count, seed=0):
    """The file with one bit flipped, so many times; it is whole again in the end."""
    content = path.read_bytes()
    rng = np.random.default_rng(seed)
    for place in rng.choice(8 * len(content), count, replace=8 * len(content) < count):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        yield place
    path.write_bytes(content)


def test_bits_of_a_result(saved):
    result, folder = saved
    path = folder / "result.nc"
    named = []
    for _ in flips(path, 1000):
        with naming(named):
            again = srmc.load(path)
            assert again == result
    assert len(named) > 950  # the others are in the seal's own words
    assert all("is damaged" in text and "put back a copy" in text for text in named)


def test_results_are_equal_if_they_hold_the_same(saved):
    result = saved[0]
    again = copy.deepcopy(result)
    assert again == result
    assert pickle.loads(pickle.dumps(result)) == result
    again.draws["x"][1, 7, 0] = np.nan
    assert again != result
    assert again == copy.deepcopy(again)
    assert result != dataclasses.replace(result, about=result.about | {"seconds": -1})
    assert result != 3


def test_bits_of_an_improved_trace(tmp_path):
    path, named = tmp_path / "better.nc", []
    x = np.random.default_rng(0).normal(size=(2, 50))
    trace = xarray.DataTree.from_dict({"posterior": xarray.Dataset({"x": (("chain", "draw"), x)})})
    show._write(trace, path)
    assert show._read(path).identical(trace)
    for _ in flips(path, 200):
        with naming(named):
            assert show._read(path).identical(trace)
    assert len(named) > 180
    assert all("is damaged" in text and "put back a copy" in text for text in named)


@pytest.mark.parametrize("lost", [1, 40, 89])
def test_a_result_or_trace_that_lost_its_end_is_refused(saved, tmp_path, lost):
    trace = xarray.Dataset({"x": (("chain", "draw"), np.zeros((2, 50)))})
    show._write(trace, tmp_path / "better.nc")
    for path, read in ((saved[1] / "result.nc", srmc.load), (tmp_path / "better.nc", show._read)):
        (tmp_path / path.name).write_bytes(path.read_bytes()[:-lost])
        with pytest.raises(ValueError, match="is damaged: it has lost its end; put back a copy"):
            read(tmp_path / path.name)


def test_a_copy_that_xarray_made_is_read_without_a_checksum(saved, tmp_path):
    result, folder = saved
    with xarray.open_datatree(folder / "result.nc", engine="h5netcdf") as tree:
        tree.to_netcdf(tmp_path / "copy.nc", engine="h5netcdf")
    np.testing.assert_array_equal(srmc.load(tmp_path / "copy.nc").draws["x"], result.draws["x"])


def test_bits_of_the_settings(saved):
    path = saved[1] / "run.toml"
    seen = lambda: (command._from_config(context, path), context.default_map)[1]
    context = SimpleNamespace(command=typer.main.get_command(main.command()).commands["sample"])
    right, named = seen(), []
    for _ in flips(path, 400):
        with naming(named, typer.BadParameter):
            assert seen() == right
    assert len(named) > 300
    assert all("is damaged" in text for text in named)
    assert seen() == right
    path.write_text(path.read_text().replace("seed = 3", "seed = 4"))
    with pytest.raises(typer.BadParameter, match="if it was edited, remove its last line"):
        seen()
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    assert seen() == right | {"seed": 4}


def test_settings_that_lost_their_end_are_refused(tmp_path):
    context = SimpleNamespace(command=typer.main.get_command(main.command()).commands["sample"])
    path = tmp_path / "run.toml"
    path.write_text(command.SEALED + command._toml({"seed": 3, "num_samples": 5000}))
    files.seal(path)
    command._from_config(context, path)
    assert context.default_map == {"seed": 3, "num_samples": 5000}
    whole = path.read_text()
    for end in range(len(command.SEALED), len(whole)):
        path.write_text(whole[:end])
        with pytest.raises(typer.BadParameter, match="damaged"):
            command._from_config(context, path)


@pytest.mark.parametrize("name", ["run.json", "state.npz", "warmup.npz"])
def test_bits_of_a_checkpoint(saved, name):
    path = saved[1] / "run" / name
    read = files.read_json if path.suffix == ".json" else files.read_arrays
    text = lambda found: {k: str(np.asarray(x).tolist()) for k, x in found.items()}
    right, named = text(read(path)), []
    for _ in flips(path, 150):
        with naming(named):
            found = text(read(path))
            assert {k: found[k] for k in right} == right
    assert named
    assert all("is damaged" in text for text in named)


def test_bits_of_draws_on_disk(saved, tmp_path):
    _, folder = saved
    shutil.copytree(folder / "run" / "draws.zarr", tmp_path / "draws.zarr")
    kept = files.read_arrays(folder / "run" / "state.npz")
    sums = {k.removeprefix("kept/"): x for k, x in kept.items() if k.startswith("kept/")}

    def read():
        store = Draws(tmp_path / "draws.zarr", 100)
        store.restore(sums, 100)
        return store.read(100)["values"]["position"]

    right, named = read(), []
    paths = sorted(p for p in (tmp_path / "draws.zarr/values").rglob("*") if p.is_file())
    assert len(paths) >= 2
    for path in paths:
        for _ in flips(path, 100):
            with naming(named):
                np.testing.assert_array_equal(read(), right)
    assert len(named) > 100
    assert all("is damaged" in text or "is missing" in text for text in named)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of h5netcdf
def test_a_result_of_an_earlier_version_has_no_seal_and_is_read(saved, tmp_path):
    result, folder = saved
    shutil.copy(folder / "result.nc", tmp_path / "old.nc")
    with h5py.File(tmp_path / "old.nc", "a") as file:  # which removes the seal
        del file.attrs[files.PROPERTIES]
    np.testing.assert_array_equal(srmc.load(tmp_path / "old.nc").draws["x"], result.draws["x"])
    for _ in flips(tmp_path / "old.nc", 50):
        with contextlib.suppress(ValueError):  # and no other error
            srmc.load(tmp_path / "old.nc")


def test_a_record_that_was_edited_is_named(saved):
    path = saved[1] / "run" / "run.json"
    content = path.read_text()
    record = json.loads(content)
    record["settings"]["seed"] = 1
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"run\.json is damaged .*not what was saved"):
        files.read_json(path)
    path.write_text(content)
