"""What a user brings, turned into a log density with starts and names: a `Problem`."""
