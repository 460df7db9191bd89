"""What can be done with draws that exist: rebalance them, control their noise; and annealing."""
