"""Post-processing of existing draws: rebalancing and control variates; and annealing."""
