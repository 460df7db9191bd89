"""Signals and kills, in warm-up too, with one process and with two."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kills
import srmc
from srmc.sample import devices
from srmc.sample.stop import Stop, ending_all, stops

SLOW = textwrap.dedent(
    """
    import os
    import sys
    import jax, jax.numpy as jnp, numpy as np, srmc
    from srmc.sample.stop import Stop

    wait_for, ask = Stop.wait_for, Stop.ask

    def waiting(stop, tree):
        os.write(1, b"waits\\n")
        wait_for(stop, tree)

    def asked(stop, *signal):
        os.write(1, b"asked\\n")
        ask(stop, *signal)

    Stop.wait_for, Stop.ask = waiting, asked

    def density(x):  # warm-up takes a minute or more
        wave = jax.lax.fori_loop(0, 100_000, lambda _, y: jnp.sin(y), x)
        return -0.5 * jnp.sum(x**2) + 1e-3 * jnp.sum(wave)

    srmc.sample(density, kernel="mala", num_warmup=20_000, num_chains=2, progress=False,
                initial_position=np.zeros(2, np.float32), checkpoint=sys.argv[1], resume=True)
    """
)


TWO = textwrap.dedent(
    """
    import sys
    import jax
    jax.distributed.initialize(f"localhost:{sys.argv[3]}", 2, int(sys.argv[2]))
    """
)
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


def test_a_signal_in_warm_up_ends_the_run_in_order(tmp_path):
    """With a KeyboardInterrupt, and not at the end of warm-up; the checkpoint can be resumed."""
    (tmp_path / "job.py").write_text(SLOW)
    folder = tmp_path / "run"
    child = subprocess.Popen([sys.executable, str(tmp_path / "job.py"), str(folder)], **PIPES)
    kills.wait_for_line(child, "waits")
    child.send_signal(signal.SIGTERM)
    text, _ = child.communicate(timeout=kills.PATIENCE)
    assert child.returncode in (-signal.SIGTERM, -signal.SIGINT), text
    assert "KeyboardInterrupt" in text
    assert "warm_up" in text
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "run.json"]


def test_a_signal_is_a_request_and_the_second_one_raises():
    before = signal.getsignal(signal.SIGTERM)
    with stops() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
    with stops() as stop:
        stop.at_once = True
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    worker = threading.Thread(target=lambda: stops().__enter__())
    worker.start()
    worker.join()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_ends_the_whole_study():
    with pytest.raises(KeyboardInterrupt), ending_all(), stops():
        os.kill(os.getpid(), signal.SIGTERM)
    with stops():
        os.kill(os.getpid(), signal.SIGTERM)


def test_waiting_ends_when_arrays_are_there_or_a_stop_is_asked_for():
    stop = Stop()
    busy = jax.jit(lambda x: jax.lax.fori_loop(0, 2_000_000, lambda _, y: jnp.sin(y), x))(1.0)
    stop.wait_for({"x": busy, "n": 3})
    assert busy.is_ready()
    stop.signal = signal.SIGTERM
    with pytest.raises(KeyboardInterrupt):
        stop.wait_for(())


def test_a_second_signal_ends_the_warm_up_of_both_processes(tmp_path):
    """The first one waits until they agree, at the end of the program that runs."""
    (tmp_path / "job.py").write_text(TWO + SLOW)
    args = [sys.executable, str(tmp_path / "job.py"), str(tmp_path / "run")]
    with kills.reserved_port() as port:
        both = [subprocess.Popen([*args, str(me), str(port)], **PIPES) for me in (0, 1)]
        try:
            for child in both:
                kills.wait_for_line(child, "waits")
            for child in both:
                child.send_signal(signal.SIGTERM)
                kills.wait_for_line(child, "asked")
            for child in both:
                child.send_signal(signal.SIGTERM)
            texts = [child.communicate(timeout=kills.PATIENCE)[0] for child in both]
        finally:
            for child in both:
                child.kill()
    for child, text in zip(both, texts, strict=True):
        assert child.returncode in (-signal.SIGTERM, -signal.SIGINT), text
        assert "KeyboardInterrupt" in text


def test_a_stopped_run_is_not_rebalanced_and_goes_on(tmp_path, monkeypatch):
    """Rebalancing may take long; whoever asked for a stop gets the plain draws at once."""
    density = lambda x: jnp.sum(1.5 * x - jnp.exp(x))
    options = {"kernel": "mala", "num_warmup": 100, "num_samples": 200, "num_chains": 2}
    options |= {"initial_position": np.zeros(2, np.float32), "progress": False}
    options |= {"checkpoint": tmp_path}
    agree, calls = Stop.agree, []

    def stops_in_the_third_chunk(self, *flags):
        calls.append(flags)
        self.signal = signal.SIGTERM if len(calls) == 3 else self.signal
        return agree(self, *flags)

    monkeypatch.setattr(Stop, "agree", stops_in_the_third_chunk)
    part = srmc.sample(density, **options, checkpoint_seconds=1e-3)
    monkeypatch.undo()
    assert part.interrupted
    assert not part.is_rebalanced
    (report,) = part.about["rebalancing"]
    assert "the run was stopped" in report["reason"]
    length = part.draws["x"].shape[1]
    assert 1 < length < 200
    whole = srmc.sample(density, **options, resume=True)
    np.testing.assert_array_equal(whole.base["x"][:, :length], part.draws["x"])
    assert whole.is_rebalanced


def test_processes_agree(monkeypatch):
    """The others are behind by a commit, slower, or have failed."""
    others = []
    gather = lambda mine: np.stack([mine, *(np.asarray(row, np.int32) for row in others)])
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(devices.multihost_utils, "process_allgather", gather)
    others[:] = [[20, 30]]
    assert devices.latest_common([30, 40]) == 30
    assert devices.latest_common([40, 50]) is None
    others[:] = [[-1, -1]]
    assert devices.latest_common([30]) is None
    others[:] = [1]
    with pytest.raises(RuntimeError, match="process 1 failed"):
        devices.together(lambda: 3)
    with pytest.raises(ZeroDivisionError):
        devices.together(lambda: 1 / 0)
    others[:] = [0]
    assert devices.together(lambda: 3) == 3
    stop = Stop()
    others[:] = [[1, 0]]
    assert stop.agree(True) == [True]
    assert stop.signal == signal.SIGTERM


def test_processes_that_are_killed_are_resumed_to_the_same_draws(tmp_path):
    """Both are killed at their second commit; `tests/kills.py` does it at random times."""
    with kills.reserved_port() as port:
        job = kills.Job(tmp_path, 2, True, port, quick=True)
        both = job.start(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for child in both:
            kills.wait_for_line(child, "saved")
            child.stdin.write("goes on\n")
            child.stdin.flush()
        for child in both:
            kills.wait_for_line(child, "saved")
        for child in both:
            child.kill()
            child.communicate()
        assert not (tmp_path / "run-out-0.npz").exists()
        for name in ("run", "whole"):
            codes = kills.end(job.start(name))
            assert codes == [0, 0], (tmp_path / f"{name}.log").read_text()
    assert kills.same_draws(tmp_path)
