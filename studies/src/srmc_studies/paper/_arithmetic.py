"""Numbers that the paper prints and that arithmetic alone can judge."""

import math

from srmc_studies.paper._ledger import Estimate, Row

CLASSES = 10
# The total variation distances of tab:cifar_parallel_chains, ULA and SR-ULA, by number of chains.
DISTANCES = {100: (0.33, 0.26), 50: (0.33, 0.28), 10: (0.5, 0.3)}


def exactly(value: float) -> Estimate:
    """A number without error."""
    return Estimate(float(value), 0.0)


def divergence_row() -> Row:
    """The bound of KL(p‖u)."""
    most = math.log(CLASSES)
    return Row(
        "fig:mnist_metrics, app:mnist_metrics",
        "KL(p‖u) over the ten digits falls by 84%, from 4.16 with GWG to 0.68 with SR-GWG",
        "4.16 and 0.68",
        {"the largest KL(p‖u) over ten classes": exactly(most)},
        {"4.16 is a possible value of KL(p‖u)": most >= 4.16},
        "KL(p‖u) = ln 10 - H(p) is largest where one class has all draws. Only KL(u‖p), which is "
        "not what the paper defines, can be 4.16.",
    )


def distance_row() -> Row:
    """With N chains, N a multiple of 10, the distance to uniform is a multiple of 1/N."""
    impossible = [
        f"{each:.4f} with {n} chains"
        for n, both in DISTANCES.items()
        for each in both
        if not math.isclose(each * n, round(each * n), abs_tol=1e-6)
    ]
    return Row(
        "tab:cifar_parallel_chains",
        "Total variation distances of the class counts of 100, 50 and 10 chains",
        "0.33 and 0.26, 0.33 and 0.28, 0.5 and 0.3",
        {"printed distances that cannot be": exactly(len(impossible))},
        {"with N chains, each is a multiple of 1/N": not impossible},
        "Half the sum of |n_c - N/10| over the classes is a whole number, since the differences "
        f"add up to 0. Impossible: {', '.join(impossible) or 'none'}.",
    )


def classes_row() -> Row:
    """Counts that contradict each other."""
    covered, captioned, plain, missed = 8, 7, 5, 4
    return Row(
        "tab:single_chain, fig:single_chain",
        "The single chain of SR-ULA covers 8 of 10 classes, and that of ULA misses four",
        "SR-ULA: 8/10 in the table, 7 in the caption; ULA: 5/10 in the table, four missed in the "
        "text",
        {"classes that ULA misses by the table": exactly(CLASSES - plain)},
        {
            "SR-ULA: table and caption agree": covered == captioned,
            "ULA: table and text agree": CLASSES - plain == missed,
        },
        "The counts contradict each other, so that at most one of each pair is what was measured.",
    )
