"""BlackJAX: repelled kernels in its own form, `blackjax.GenerateSamplingAPI`.

Each has `init(position, logdensity_fn)` and `build_kernel()`, is called like the kernel of its name
in BlackJAX, and can be given to `blackjax.window_adaptation`, SMC and the like. For other settings
of the repellence, or other kernels, use `srmc.repelled`.
"""

import blackjax

from srmc.repel.repel import repelled

nuts = repelled(blackjax.nuts)
hmc = repelled(blackjax.hmc)
dynamic_hmc = repelled(blackjax.dynamic_hmc)
mala = repelled(blackjax.mala)
barker = repelled(blackjax.barker)

__all__ = ["barker", "dynamic_hmc", "hmc", "mala", "nuts"]
