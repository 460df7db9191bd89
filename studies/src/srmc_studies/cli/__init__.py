"""The commands `srmc bench`, `reproduce`, `theory` and `train`."""

from srmc_studies.cli.bench import bench
from srmc_studies.cli.compare import (
    calibration,
    centred,
    clock,
    coordinates,
    divergences,
    gallery,
    growth,
    looped,
    multimodal,
    posteriors,
    streaming,
)
from srmc_studies.cli.reproduce import reproduce
from srmc_studies.cli.theory import theory
from srmc_studies.cli.train import train

for comparison in (
    *(posteriors, multimodal, streaming, calibration, clock, gallery, growth),
    *(coordinates, centred, divergences, looped),
):
    bench.command()(comparison)

__all__ = ["bench", "reproduce", "theory", "train"]
