from srmc.bench.overhead import overhead


def test_rows_have_a_baseline_and_a_ratio_each():
    size = {"num_data": 20, "dim": 3, "num_chains": 2, "num_steps": 70, "lattice": 3}
    rows = overhead(**size, repeats=2, kernels=("nuts", "gwg", "rebalance"))
    assert {row["kernel"] for row in rows} == {"nuts", "gwg", "rebalance"}
    for row in rows:
        assert row["microseconds_per_step"] > 0
        assert (row["ratio"] == 1) or row["variant"] not in ("blackjax", "plain", "gradients")
