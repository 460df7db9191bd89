"""Make src/srmc/targets/cox.json from long NUTS runs: `python tests/targets/make_cox.py`."""

import json
from pathlib import Path

import blackjax
import jax
import numpy as np
from blackjax.mcmc.hmc import HMCState

from srmc.targets._continuous import cox
from srmc.types import Array, Float, PRNGKey


def main(num_chains: int = 32, num_warmup: int = 1000, num_draws: int = 4000) -> None:
    """Run NUTS and write the moments to cox.json.

    Means use a first-order control variate, and their errors come from the spread over chains.
    """
    logp = cox().logdensity_fn
    starts = jax.random.normal(jax.random.key(1), (num_chains, 256))

    @jax.jit
    @jax.vmap
    def run(
        key: PRNGKey, x: Float[Array, " d"]
    ) -> tuple[Float[Array, "draw d"], Float[Array, "draw d"]]:
        warm_key, run_key = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, logp)
        (state, parameters), _ = adaptation.run(warm_key, x, num_warmup)
        kernel = blackjax.nuts(logp, **parameters)

        def one(
            state: HMCState, key: PRNGKey
        ) -> tuple[HMCState, tuple[Float[Array, " d"], Float[Array, " d"]]]:
            state, _ = kernel.step(key, state)
            return state, (state.position, state.logdensity_grad)

        _, (draws, scores) = jax.lax.scan(one, state, jax.random.split(run_key, num_draws))
        return draws, scores

    out = run(jax.random.split(jax.random.key(0), num_chains), starts)
    draws, scores = (np.asarray(a, np.float64) for a in out)
    flat = scores.reshape(-1, 256)
    controlled = draws + scores @ np.linalg.inv(flat.T @ flat / len(flat))
    by_chain = controlled.mean(axis=1)
    record = {
        "mean": by_chain.mean(axis=0),
        "variance": draws.var(axis=(0, 1)),
        "error": by_chain.std(axis=0, ddof=1) / np.sqrt(num_chains),
    }
    rounded = {name: [float(f"{v:.6g}") for v in values] for name, values in record.items()}
    target = Path(__file__).parents[2] / "src" / "srmc" / "targets" / "cox.json"
    target.write_text(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
