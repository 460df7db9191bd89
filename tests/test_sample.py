"""`srmc.sample` as a person uses it."""

import functools
import os
import runpy
import shutil
import signal
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import MEAN, VARIANCE, log_gamma
from srmc.sample import checkpoint as checkpoints
from srmc.sample import keep as keeping

QUICK = {
    "kernel": "mala",
    "num_warmup": 200,
    "num_samples": 120,
    "num_chains": 2,
    "seed": 3,
    "initial_position": np.zeros(2, np.float32),
    "progress": False,
}


def same(a, b):
    assert a.draws.keys() == b.draws.keys()
    for name, x in a.draws.items():
        np.testing.assert_array_equal(x, b.draws[name])
    for name, x in a.stats.items():
        np.testing.assert_array_equal(x, b.stats[name])


@pytest.fixture(scope="module")
def whole():
    with jax.numpy_rank_promotion("raise"):
        return srmc.sample(log_gamma, **QUICK)


@pytest.fixture
def stops_early(monkeypatch):
    """Makes the run get a signal after its first chunk."""

    def arrange(number):
        tell = keeping._tell

        def and_signal(*args):
            tell(*args)
            os.kill(os.getpid(), number)

        monkeypatch.setattr(keeping, "_tell", and_signal)

    yield arrange
    monkeypatch.undo()


def test_a_result_has_what_was_asked_and_what_made_it(whole):
    assert whole.draws["x"].shape == (2, 120, 2)
    assert set(whole.about["versions"]) == {"srmc", "jax", "blackjax", "python"}
    assert whole.about["settings"]["seed"] == 3
    assert whole.gradients == whole.stats["gradients"].sum()
    assert whole.about["gradients_of_warmup"] > 2 * 190
    assert not whole.interrupted
    summary = whole.summary()
    assert list(summary.index) == ["x[0]", "x[1]"]
    np.testing.assert_allclose(summary["mean"], whole.draws["x"].mean(axis=(0, 1)), rtol=1e-5)


def test_the_bar_changes_no_draw(whole, capsys):
    same(whole, srmc.sample(log_gamma, **QUICK | {"progress": True}))
    assert "sampling" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_goes_on_to_the_same_draws(whole, tmp_path, stops_early, monkeypatch, number):
    before = signal.getsignal(number)
    stops_early(number)
    part = srmc.sample(log_gamma, **QUICK, checkpoint=tmp_path, checkpoint_seconds=1e-9)
    monkeypatch.undo()
    assert signal.getsignal(number) is before
    assert part.interrupted
    length = part.draws["x"].shape[1]
    assert 0 < length < 120
    np.testing.assert_array_equal(part.base["x"], whole.base["x"][:, :length])
    same(whole, srmc.sample(log_gamma, **QUICK, checkpoint=tmp_path, resume=True))
    same(whole, srmc.sample(log_gamma, **QUICK, checkpoint=tmp_path, resume=True))


def test_moments_are_resumed_too(tmp_path, stops_early, monkeypatch):
    whole = srmc.sample(log_gamma, **QUICK, alpha=3.0)
    options = QUICK | {"keep": "covariance", "checkpoint": tmp_path, "alpha": 3.0}
    stops_early(signal.SIGTERM)
    part = srmc.sample(log_gamma, **options, checkpoint_seconds=1e-9)
    monkeypatch.undo()
    assert part.interrupted
    done = srmc.sample(log_gamma, **options, resume=True)
    x = whole.draws["x"].astype(float)
    np.testing.assert_allclose(done.moments["x"]["mean"], x.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(done.covariance, np.cov(x.reshape(-1, 2).T), rtol=1e-4)
    assert done.gradients == whole.gradients
    np.testing.assert_allclose(done.summary()["sd"], x.std(axis=(0, 1)), rtol=1e-2)
    with pytest.raises(ValueError, match="kept moments alone"):
        done.draws  # noqa: B018
    done.save(tmp_path / "moments.nc")
    again = srmc.load(tmp_path / "moments.nc")
    np.testing.assert_array_equal(again.covariance, done.covariance)
    np.testing.assert_array_equal(again.moments["x"]["error"], done.moments["x"]["error"])


def test_a_run_killed_outright_loses_a_chunk_at_most(tmp_path):
    """The real thing: a child process, kill -9, and the same draws in the end."""
    script = textwrap.dedent(
        """
        import sys
        import jax.numpy as jnp, numpy as np, srmc
        from srmc.sample.checkpoint import Checkpoint

        def log_density(x):
            return jnp.sum(1.5 * x - jnp.exp(x))

        options = dict(kernel="mala", num_warmup=100, num_samples=100_000, num_chains=2,
                       initial_position=np.zeros(2, np.float32), progress=False, thin=20)
        if __name__ == "__main__":
            save = Checkpoint.save
            Checkpoint.save = lambda *given: (save(*given), print("saved", flush=True))
            srmc.sample(log_density, checkpoint=sys.argv[1], checkpoint_seconds=0.1, **options)
            open(sys.argv[1] + "-ended", "w").close()
        """
    )
    (tmp_path / "job.py").write_text(script)
    folder = tmp_path / "run"
    args = [sys.executable, str(tmp_path / "job.py"), str(folder)]
    child = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "saved\n"
    committed = int(np.load(folder / "state.npz")["done"])
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert 0 < committed < 5_000
    assert not (tmp_path / "run-ended").exists()
    after = int(np.load(folder / "state.npz")["done"])
    assert after >= committed
    scope = runpy.run_path(str(tmp_path / "job.py"))
    run = functools.partial(srmc.sample, scope["log_density"], **scope["options"])
    resumed = run(checkpoint=folder, resume=True)
    np.testing.assert_array_equal(resumed.draws["x"], run().draws["x"])


def test_another_run_s_checkpoint_is_refused(tmp_path):
    options = QUICK | {"checkpoint": tmp_path / "run"}
    srmc.sample(log_gamma, **options)
    with pytest.raises(ValueError, match="checkpoint must be a new folder"):
        srmc.sample(log_gamma, **options)
    with pytest.raises(ValueError, match="another run: seed was 3 and is 4"):
        srmc.sample(log_gamma, **options | {"seed": 4}, resume=True)
    with pytest.raises(ValueError, match="another run: kernel was 'mala' and is 'mh'"):
        srmc.sample(log_gamma, **options | {"kernel": "mh"}, resume=True)
    with pytest.raises(ValueError, match="another run: the model's log density"):
        srmc.sample(lambda x: 1.1 * log_gamma(x), **options, resume=True)
    more = lambda values: {"total": values["x"].sum()}
    with pytest.raises(ValueError, match="another run: a draw was"):
        srmc.sample(log_gamma, **options, statistics=more, resume=True)
    wider = options | {"initial_position": np.zeros(3, np.float32)}
    with pytest.raises(ValueError, match="another run: a draw was"):
        srmc.sample(lambda x: log_gamma(x[:2]) - x[2] ** 2, **wider, resume=True)
    for name in ("state.npz", "warmup.npz", "run.json"):
        broken = tmp_path / name.replace(".", "-")
        shutil.copytree(tmp_path / "run", broken)
        whole = (broken / name).read_bytes()
        (broken / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=f"{name} is damaged or truncated"):
            srmc.sample(log_gamma, **options | {"checkpoint": broken}, resume=True)


def test_the_base_chain_is_the_plain_kernel_s():
    options = QUICK | {"alpha": 3.0, "shared_history": True}
    repelled = srmc.sample(log_gamma, **options, base=True)
    plain = srmc.sample(log_gamma, **options | {"alpha": 0.0})
    np.testing.assert_allclose(repelled.base["x"], plain.draws["x"], atol=1e-5)
    assert np.any(np.abs(repelled.draws["x"] - plain.draws["x"]) > 1e-3)


def test_statistics_are_kept_beside_the_draws(whole):
    more = lambda values: {"total": values["x"].sum()}
    result = srmc.sample(log_gamma, **QUICK, statistics=more)
    np.testing.assert_array_equal(result.draws["x"], whole.draws["x"])
    np.testing.assert_allclose(result.draws["total"], whole.draws["x"].sum(axis=2), rtol=1e-5)


def test_it_finds_the_truth():
    result = srmc.sample(
        log_gamma,
        kernel="mh",
        num_chains=8,
        num_samples=20_000,
        initial_position=lambda key: jax.random.normal(key, (2,)),
        progress=False,
    )
    summary = result.summary()
    off = (summary["mean"].to_numpy() - MEAN) / summary["error"].to_numpy()
    assert np.all(np.abs(off) < 6)
    assert np.all(summary["error"].to_numpy() < 0.05)
    np.testing.assert_allclose(summary["sd"] ** 2, VARIANCE, rtol=0.15)


def test_a_schedule_of_alpha_is_taken_as_it_is():
    result = srmc.sample(log_gamma, **QUICK, alpha=srmc.watched(3.0))
    assert np.max(result.stats["alpha"]) == pytest.approx(3.0)
    number = srmc.sample(log_gamma, **QUICK, alpha=3.0)
    np.testing.assert_allclose(result.stats["gain"], number.stats["gain"], rtol=1e-5)
    discrete = {"num_warmup": 100, "num_samples": 60, "progress": False}
    target = srmc.targets.ising(srmc.targets.lattice(3, 3), 0.2, 0.1)
    result = srmc.sample(target, alpha=srmc.gain_limited(5.0), **discrete)
    assert 0 < np.max(result.stats["alpha"]) <= 5.0


def test_a_model_and_a_keep_say_what_the_keywords_say(whole):
    more = lambda values: {"total": values["x"].sum()}
    keep = srmc.Keep(thin=2, statistics=more, base=True)
    apart = srmc.sample(log_gamma, **QUICK, thin=2, statistics=more, base=True)
    together = srmc.sample(srmc.Model(log_gamma), **QUICK, keep=keep)
    same(apart, together)
    np.testing.assert_array_equal(apart.base["total"], together.base["total"])
    np.testing.assert_array_equal(together.base["x"], whole.base["x"][:, 1::2])


def test_a_loop_that_blows_up_is_noticed():
    """The paper's HMC on its own Gaussian, alpha = 2."""
    options = {"kernel": "hmc", "step_size": 0.2, "num_warmup": 100, "num_samples": 500}
    repellence = srmc.paper_settings(2.0)
    with pytest.warns(UserWarning, match="the loop of history and kernel blew up"):
        result = srmc.sample(
            srmc.targets.gaussian(), repellence=repellence, progress=False, **options
        )
    assert np.mean(result.stats["is_stable"]) < 0.9


@pytest.mark.parametrize(
    "options",
    [{"alpha": srmc.watched(3.0)}, {"repellence": srmc.paper_settings(0.5)}],
    ids=["schedule", "repellence"],
)
def test_schedules_and_repellence_are_resumed(tmp_path, options):
    """From settings that are the same in another process, where functions are elsewhere."""
    first = srmc.sample(log_gamma, **QUICK, **options, checkpoint=tmp_path)
    again = {"alpha": srmc.watched(3.0)} if "alpha" in options else {}
    again = again or {"repellence": srmc.paper_settings(0.5)}
    same(first, srmc.sample(log_gamma, **QUICK, **again, checkpoint=tmp_path, resume=True))
    other = {"alpha": srmc.watched(4.0)} if "alpha" in options else {}
    other = other or {"repellence": srmc.paper_settings(0.6)}
    with pytest.raises(ValueError, match="belongs to another run"):
        srmc.sample(log_gamma, **QUICK, **other, checkpoint=tmp_path, resume=True)
    assert " at 0x" not in str(first.about["settings"])


def test_what_repellence_leaves_out_stays_tuned():
    tuned = srmc.sample(log_gamma, **QUICK, alpha=3.0)
    given = {"repellence": {"history_every": 2, "feedback_every": 1}}
    result = srmc.sample(log_gamma, **QUICK, alpha=3.0, **given)
    np.testing.assert_array_equal(result.base["x"], tuned.base["x"])
    assert np.all(np.max(result.stats["alpha"]) == np.max(tuned.stats["alpha"]))
    updates = result.stats["gain"] > 0
    assert np.mean(updates) == 0.5
    np.testing.assert_allclose(result.stats["gain"][updates], tuned.stats["gain"].ravel()[0], 0.5)


def test_paper_settings_are_one_keyword_away():
    result = srmc.sample(log_gamma, **QUICK, repellence=srmc.paper_settings(0.5))
    np.testing.assert_allclose(result.stats["alpha"], 0.5)
    assert np.all(result.stats["hvps"] > 0)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"kernel": "gibs"}, ValueError, "kernel must be one of"),
        ({"alpha": -1.0}, ValueError, "alpha must be finite and >= 0"),
        ({"alpha": "strong"}, ValueError, "alpha must be one of"),
        ({"num_samples": 0}, ValueError, "num_samples must be >= 1"),
        ({"num_warmup": 10}, ValueError, "num_warmup must be >= 100"),
        ({"num_chains": 0}, ValueError, "num_chains must be >= 1"),
        ({"thin": 1000}, ValueError, "thin must be at most num_samples"),
        ({"keep": "all"}, ValueError, "keep must be one of"),
        ({"step_size": 0.0}, ValueError, "step_size must be finite and > 0"),
        ({"num_integration_steps": 5}, ValueError, "num_integration_steps is for kernel 'hmc'"),
        ({"resume": True}, ValueError, "resume=True needs checkpoint"),
        ({"checkpoint": "/proc/nothing"}, ValueError, "checkpoint must be a folder"),
        ({"initial_position": None}, ValueError, "initial_position must be given"),
        ({"initial_position": np.zeros(2, int)}, TypeError, "must be floating point"),
        ({"initial_position": [np.zeros(2)]}, ValueError, "a list of 2 positions"),
        ({"initial_position": np.full(2, np.nan)}, ValueError, "must be finite at the start"),
        ({"shared_history": "yes"}, TypeError, "shared_history must be True or False"),
        ({"base": True, "repellence": {"surrogate": srmc.tilt()}}, ValueError, "base=True needs"),
        ({"model": srmc.targets.banana(), "data": ()}, ValueError, "data is for NumPyro models"),
        ({"model": srmc.targets.banana(), "initial_position": "prior"}, ValueError, "for a target"),
        ({"keep": srmc.Keep(), "thin": 2}, ValueError, "thin must be in the srmc.Keep"),
        ({"model": srmc.Model(log_gamma), "data": ()}, ValueError, "data must be in the srmc.Mod"),
        ({"statistics": 3}, TypeError, "statistics must be a function"),
        ({"repellence": {"alpa": 1}}, ValueError, "repellence must be keywords of repel, got alpa"),
        ({"initial_position": "priors"}, ValueError, "initial_position must be one of"),
        ({"initial_position": [0] * 9}, ValueError, r"write jnp.array\(\[0, .*, float\)"),
        ({"model": 3}, TypeError, "model must be a log density"),
        ({"model": lambda x: x}, ValueError, "must return one floating-point number"),
    ],
)
def test_bad_input_is_named(change, error, words):
    options = {"model": log_gamma} | QUICK | change
    with pytest.raises(error, match=words):
        srmc.sample(options.pop("model"), **options)
    with pytest.raises(TypeError, match=r"unknown keyword, alfa; did you mean alpha\?"):
        srmc.sample(log_gamma, **QUICK, alfa=1.0)
    with pytest.raises(TypeError, match=r"unknown keyword, draws; did you mean num_samples\?"):
        srmc.sample(log_gamma, **QUICK, draws=100)


def test_a_full_disk_stops_the_run_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    """The second commit fails as on a full disk; what the first one wrote is resumed."""
    write, calls = checkpoints.write_arrays, []

    def fails(path, arrays):
        calls.append(path.name)
        if calls.count("state.npz") == 2:
            raise OSError(28, "No space left on device")
        write(path, arrays)

    monkeypatch.setattr(checkpoints, "write_arrays", fails)
    options = QUICK | {"checkpoint": tmp_path}
    with pytest.raises(OSError, match="No space left on device; 1 draws per chain are safe"):
        srmc.sample(log_gamma, **options, checkpoint_seconds=1e-9)
    monkeypatch.undo()
    assert srmc.sample(log_gamma, **options, resume=True).draws["x"].shape == (2, 120, 2)


def test_non_finite_places_are_counted_and_survived():
    hole = lambda x: jnp.where(jnp.abs(x[0] - 1.0) < 0.1, jnp.nan, log_gamma(x))
    with pytest.warns(UserWarning, match=r"density or acceptance was 0 or not finite"):
        result = srmc.sample(hole, **QUICK | {"kernel": "nuts"})
    assert np.all(np.isfinite(result.draws["x"]))
    assert not np.any(np.abs(result.draws["x"][..., 0] - 1.0) < 0.1)


def test_a_wall_is_noticed_and_left_alone():
    """A half-normal, whose mean score is not 0; so is that of any density with an edge."""
    half = lambda x: jnp.where(x[0] > 0, -0.5 * jnp.sum(x**2), -jnp.inf)
    options = QUICK | {"initial_position": np.ones(2, np.float32), "num_warmup": 1000}
    with pytest.warns(UserWarning, match="the draws are unchanged: .* it has a wall"):
        result = srmc.sample(half, **options)
    assert not result.is_rebalanced
    np.testing.assert_array_equal(result.draws["x"], result.base["x"])
    with pytest.warns(UserWarning, match="without control variates: .* a wall"):
        result = srmc.sample(half, **options, keep="moments")
    assert not result.is_controlled
    with pytest.warns(UserWarning, match="the mean score of the draws is not 0: .* stays off"):
        result = srmc.sample(half, **options, keep="covariance")
    assert np.all(result.stats["alpha"] == 0)
    with pytest.warns(UserWarning, match="repelled draws are off the target"):
        srmc.sample(half, **options | {"alpha": 3.0})


def test_a_chain_that_follows_the_pilots_is_not_left_behind():
    quartic = lambda x: -jnp.sum(x**4) / 4
    starts = [np.full(2, 0.1, np.float32)] * 34
    starts[33] = np.full(2, 30.0, np.float32)
    options = QUICK | {"num_chains": 34, "initial_position": starts}
    with pytest.warns(UserWarning, match="1 of the chains were stuck at their initial_position"):
        result = srmc.sample(quartic, **options)
    assert np.max(np.abs(result.draws["x"])) < 5


def test_draws_are_rebalanced_and_the_base_chain_is_the_plain_kernel_s(whole):
    plain = srmc.sample(log_gamma, **QUICK, alpha=0.0)
    np.testing.assert_array_equal(whole.base["x"], plain.draws["x"])
    assert whole.is_rebalanced
    off = [np.abs(x.mean(axis=(0, 1)) - MEAN) for x in (whole.draws["x"], whole.base["x"])]
    assert np.all(off[0] < 0.5 * off[1])
    (report,) = whole.about["rebalancing"]
    assert report["gradients"] > 0
    assert not any(finding["failed"] for finding in report["findings"])


def test_each_chain_is_rebalanced_by_itself_without_a_shared_history():
    result = srmc.sample(log_gamma, **QUICK, shared_history=False)
    assert len(result.about["rebalancing"]) == 2
    assert np.all(result.summary()["error"] > 0)


def test_any_function_has_an_estimate_and_an_error(whole, tmp_path):
    square = lambda draws: draws["x"] ** 2
    mean, error = whole.estimate(square)
    assert np.all(np.abs(mean - VARIANCE - MEAN**2) < 6 * error)
    whole.save(tmp_path / "r.nc")
    again = srmc.load(tmp_path / "r.nc")
    np.testing.assert_allclose(again.estimate(square), (mean, error))
    with pytest.raises(ValueError, match="must return an array"):
        whole.estimate(lambda draws: 1.0)
