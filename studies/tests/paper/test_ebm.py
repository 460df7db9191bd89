"""Data, networks and training of the experiments on images."""

import gzip
import hashlib
import http.server
import json
import threading
import urllib.error

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import srmc
from srmc.cli.main import command
from srmc_studies.paper._chains import Plan
from srmc_studies.paper.ebm import binary, data, files, networks, sampling, tempered, training

app = command()

SHIPPED = ("mnist-ebm", "mnist-classifier", "cifar-ebm", "cifar-classifier")


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """An empty $SRMC_DATA and an empty cache."""
    monkeypatch.setenv("SRMC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.fixture
def home(tmp_path):
    """A server of the files in a folder, and the folder."""
    folder = tmp_path / "home"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_file_is_downloaded_once_with_progress_and_checksum(folders, home):
    folder, url = home
    (folder / "a.bin").write_bytes(b"x" * 1000)
    source = files.Source(f"{url}/a.bin", hashlib.sha256(b"x" * 1000).hexdigest())
    told = []
    path = files.fetch([source], "a.npz", lambda *x: told.append(x))["a.bin"]
    assert path == folders / "cache" / "srmc" / "a.bin"
    assert told == [("a.bin", 1000, 1000)]
    (folder / "a.bin").unlink()
    assert files.fetch([source], "a.npz")["a.bin"] == path
    (folders / "data" / "a.bin").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"data/a\.bin must have the checksum .* remove it"):
        files.fetch([source], "a.npz")
    (folders / "data" / "a.bin").write_bytes(b"x" * 1000)
    assert files.fetch([source], "a.npz")["a.bin"] == folders / "data" / "a.bin"


def test_a_file_with_another_checksum_is_not_kept(folders, home):
    folder, url = home
    (folder / "a.bin").write_bytes(b"damaged")
    source = files.Source(f"{url}/a.bin", hashlib.md5(b"good").hexdigest())
    with pytest.raises(ValueError, match="must have the checksum"):
        files.fetch([source], "a.npz")
    assert not list(files.cache().iterdir())


def test_offline_the_error_says_which_file_to_put_where(folders, monkeypatch):
    def offline(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(files.urllib.request, "urlopen", offline)
    for load, name in (
        (data.mnist, "mnist.npz"),
        (data.static_mnist, "binarized-mnist-static.npz"),
        (data.cifar, "cifar10-subset.npz"),
    ):
        with pytest.raises(FileNotFoundError, match=f"put {name}, or .* into {folders}"):
            load()
    result = CliRunner().invoke(app, ["train", "mnist-ebm", "--out", str(folders / "out")])
    assert result.exit_code == 2
    assert "binarized-mnist-static.npz" in result.output.replace("\n", "")
    assert not list((folders / "out").iterdir())


def test_the_formats_of_the_data_sets_homes_are_read(folders, monkeypatch):
    monkeypatch.setattr(files, "_check", lambda path, source: None)
    cache = folders / "cache" / "srmc"
    cache.mkdir(parents=True)
    pixels = np.arange(2 * 784).reshape(2, 28, 28).astype(np.uint8)
    for part in ("train", "t10k"):
        head = b"\0\0\x08\x03" + np.array([2, 28, 28], ">i4").tobytes()
        images = gzip.compress(head + pixels.tobytes())
        (cache / f"{part}-images-idx3-ubyte.gz").write_bytes(images)
        labels = b"\0\0\x08\x01" + np.array([2], ">i4").tobytes() + bytes([7, 3])
        (cache / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    images = data.mnist()
    np.testing.assert_array_equal(images.x_test, pixels)
    np.testing.assert_array_equal(images.y_train, [7, 3])
    bits = (pixels.reshape(2, 784) % 2).astype(int)
    text = "".join(" ".join(map(str, row)) + "\n" for row in bits)
    for part in ("train", "test"):
        (cache / f"binarized_mnist_{part}.amat").write_text(text)
    for x in data.static_mnist():
        np.testing.assert_array_equal(x, bits)


def test_real_digits_come_without_a_download(folders):
    images = data.digits()
    assert images.x_train.shape[1:] == (28, 28)
    assert set(images.y_test) == set(range(10))
    assert images.x_test.max() == 255
    assert images.x_train[:, :2].mean() < 5 < images.x_train[:, 10:18].mean()


def small_task(iterations=6):
    rng = np.random.default_rng(0)
    x = (rng.random((50, 784)) < 0.2).astype(np.uint8)
    options = {"rate": 1e-3, "batch": 4, "chains": 8, "steps": 2, "step_size": 0.1}
    task = binary.binary_energy(x, x, iterations, 0, options, "noise")
    return task._replace(finish=lambda at: (networks.rounded(at.model), {"quality": 1.0}))


def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(tmp_path):
    straight, card = training.train("mnist-ebm", small_task(), 6, tmp_path / "a", every=3)

    class Stopped(Exception):
        pass

    def batch(n):
        if n == 4:
            raise Stopped
        return small_task().batch(n)

    task = small_task()._replace(batch=batch)
    with pytest.raises(Stopped):
        training.train("mnist-ebm", task, 6, tmp_path / "b", every=3)
    again, _ = training.train("mnist-ebm", small_task(), 6, tmp_path / "b", resume=True)
    assert eqx.tree_equal(straight, again)
    assert card["settings"]["data"] == "noise"
    with pytest.raises(ValueError, match="must be of these settings"):
        training.train("mnist-ebm", small_task(), 6, tmp_path / "b", seed=1, resume=True)
    with pytest.raises(FileNotFoundError, match="leave out --resume"):
        training.train("mnist-ebm", small_task(), 6, tmp_path / "c", resume=True)
    networks.save(tmp_path, "mnist-ebm", straight, card)
    assert eqx.tree_equal(networks.load("mnist-ebm", tmp_path), straight)
    assert networks.card("mnist-ebm", tmp_path) == json.loads(json.dumps(card))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_weights_have_a_card(name):
    model, card = networks.load(name), networks.card(name)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(model))
    assert card["command"] == f"srmc train {name}"
    assert card["processor_seconds"] > 0
    assert card["settings"]["data"]
    assert card["quality"]


def test_a_training_is_shown_beside_the_shipped_weights():
    shipped, card = networks.load("mnist-ebm"), networks.card("mnist-ebm")
    rows = networks.beside_shipped("mnist-ebm", shipped, card)
    assert ("settings", "the same", "") in rows
    assert rows[-1] == ("largest difference of a weight", "0", "")
    likelihood = str(card["quality"]["test_log_likelihood"])
    assert rows[0] == ("test_log_likelihood", likelihood, likelihood)
    other = eqx.tree_at(lambda m: m.base, shipped, shipped.base + 1)
    rows = networks.beside_shipped("mnist-ebm", other, card | {"settings": {}})
    assert ("settings", "others", "") in rows
    assert float(rows[-1][1]) == pytest.approx(1, abs=0.01)


def test_shipped_weights_are_small_and_the_digits_are_told_apart():
    assert sum(p.stat().st_size for p in networks.WEIGHTS.iterdir()) < 5e6
    assert networks.card("mnist-classifier")["quality"]["test_accuracy"] > 0.985
    images = data.digits()
    x = (images.x_test[:200] >= 128)[..., None].astype(np.float32)
    found = jax.jit(jax.vmap(networks.load("mnist-classifier")))(x).argmax(axis=1)
    # scikit-learn's digits are drawn otherwise than MNIST's
    least = 0.6 if "scikit" in images.source else 0.95
    assert np.mean(found == images.y_test[:200]) > least


def test_convolutions_are_those_of_jax():
    network = networks.Convolutions(jax.random.key(0), 8, (3, 5), (2,))
    x = jax.random.normal(jax.random.key(1), (8, 8, 3))
    kernel = network.layers[0].weight.T.reshape(2, 2, 2, 2, 3, 5).transpose(0, 2, 1, 3, 4, 5)
    y = jax.lax.conv_general_dilated(
        x[None],
        kernel.reshape(4, 4, 3, 5),
        (2, 2),
        [(1, 1), (1, 1)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )[0]
    hidden = jax.nn.swish(y + network.layers[0].bias[None, None])
    np.testing.assert_allclose(network(x), network.ends[0](hidden.reshape(-1)), atol=1e-4)


def test_paths_count_steps_and_gradients():
    f = lambda x: jnp.sum(x * jnp.arange(6.0)) / 3 + jnp.prod(x)
    build = lambda a: srmc.gwg(f, srmc.Binary(), **srmc.paper_settings(a, discrete=True))
    with pytest.warns(UserWarning, match="relaxed"):
        low, high = sampling.follow(
            build, [0.1, 5.0], np.zeros((3, 6), np.float32), jax.random.key(0), Plan(4, 5)
        )
    assert low.states.shape == (5, 3, 6)
    assert low.states.dtype == np.uint8
    np.testing.assert_array_equal(low.steps, [0, 5, 10, 15, 20])
    np.testing.assert_array_equal(low.gradients, 5 * low.steps)
    assert not np.array_equal(low.states, high.states)
    assert low.until(steps=12) == 2
    assert low.until(gradients=30) == 1
    seen = sampling.judge(lambda x: x.reshape(-1), f, (6, 1))(low)
    np.testing.assert_array_equal(seen.counts(4).sum(axis=1), 4)
    np.testing.assert_allclose(
        seen.energies[-1], [-f(x.astype(np.float32)) for x in low.states[-1]]
    )


def test_tempering_keeps_the_cold_level_on_its_target():
    class Toy(eqx.Module):
        """Two modes, all 0 and all 1, between which a flip of one of four sites costs 3."""

        base: jax.Array

        def base_logdensity(self, x):
            return self.base @ x

        def __call__(self, x):
            return self.base_logdensity(x) + 1.5 * (jnp.sum(2 * x - 1) ** 2) / 4 + 0.5 * x[0]

    model = Toy(jnp.full(4, 0.2))
    states = srmc.Binary().all_states((4,)).astype(np.float32)
    exact = jax.nn.softmax(jax.vmap(model)(states)) @ states
    starts = np.zeros((64, 4), np.float32)
    ladder = tempered.temper(
        model, starts, jax.random.key(0), np.linspace(1, 0, 4), Plan(150, 1), 0.3
    )
    found = ladder.path.states[20:].astype(float)
    error = found.mean(axis=0).std(axis=0) / np.sqrt(64)
    assert np.all(np.abs(found.mean(axis=(0, 1)) - exact) < 5 * error)
    assert np.all(ladder.swaps > 0.2)
    assert ladder.path.gradients[-1] == 150 * 11 * 4
