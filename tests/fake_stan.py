"""The interface of `bridgestan.StanModel`, without a compiler: the model of tests of traces."""

import numpy as np


class FakeStan:
    """mu ~ N(mean, 1/2), s ~ Gamma(3, rate 2), p ~ Dirichlet(shares), and t = mu + s."""

    def __init__(self, mean, shares):
        self.mean, self.shares = mean, shares

    def name(self):
        return "fake_model"

    def param_names(self, *, include_tp=False, include_gq=False):
        names = ["mu", "s", "p.1", "p.2", "p.3"]
        return names + ["t"] * include_tp + ["guess.1", "guess.2"] * include_gq

    def param_unc_num(self):
        return 4

    def new_rng(self, seed):
        return np.random.default_rng(seed)

    def param_constrain(self, theta_unc, *, include_tp=False, include_gq=False, rng=None):
        if include_gq and rng is None:
            raise ValueError("Error: must specify rng when including generated quantities")
        p = np.exp([*theta_unc[2:], 0.0])
        values = [theta_unc[0], np.exp(theta_unc[1]), *(p / p.sum())]
        values += [values[0] + values[1]] * include_tp
        return np.array(values + list(rng.normal(size=2)) if include_gq else values)

    def param_unconstrain(self, theta):
        log_p = np.log(theta[2:])
        return np.array([theta[0], np.log(theta[1]), *(log_p[:2] - log_p[2])])

    def log_density_gradient(self, theta_unc, *, propto=True, jacobian=True):
        assert theta_unc.dtype == np.float64
        if theta_unc[1] > 50:
            raise RuntimeError("Exception: gamma_lpdf: Random variable is inf")
        mu, s, p = theta_unc[0], theta_unc[1], np.exp([*theta_unc[2:], 0.0])
        p = p / p.sum()
        value = -2 * (mu - self.mean) ** 2 + 3 * s - 2 * np.exp(s) + self.shares @ np.log(p)
        of_p = self.shares[:2] - self.shares.sum() * p[:2]
        return value, np.array([-4 * (mu - self.mean), 3 - 2 * np.exp(s), *of_p])
