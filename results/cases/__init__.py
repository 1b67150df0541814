"""Cases of runs: their records pooled to one result each."""
