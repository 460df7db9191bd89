from srmc.bench.overhead import overhead


def test_rows_have_a_baseline_and_a_ratio_each():
    rows = overhead(num_data=20, dim=3, num_chains=2, num_steps=3, repeats=2, kernels=("mala",))
    assert {row["kernel"] for row in rows} == {"mala"}
    for row in rows:
        assert row["microseconds_a_step"] > 0
        assert (row["ratio"] == 1) or row["variant"] != "blackjax"
