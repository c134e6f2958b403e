"""What can be learnt from finished runs: curves, statistics, pictures."""
