"""Algorithm 1 of the paper: target, history, strength, surrogate and kernel, and the glue `repel`.

`repel.py` puts the parts together. `fixed.py` and `moving.py` hold one step each, in the order in
which the paper prints it; `memory.py` closes the loop that they share.
"""
