"""From a log density and starting points to a tuned kernel and suitable repellence.

`tune` runs the warm-up of a `Tuner`, of which there are two: `Continuous` and `Discrete`. It finds
step size and metric (`adapt`), measures what the loop needs on late warm-up draws of the plain
kernel, and turns that into keywords of `repel` (`measure`). `kernels` is the table of kernels, and
every constant is in `rule`, with the reason for it.
"""

from srmc.sample.tune import rule
from srmc.sample.tune.continuous import Continuous
from srmc.sample.tune.discrete import Discrete
from srmc.sample.tune.kernels import OwnKernel
from srmc.sample.tune.tuner import Tuned, Tuner, Warmup, tune

__all__ = ["Continuous", "Discrete", "OwnKernel", "Tuned", "Tuner", "Warmup", "rule", "tune"]
