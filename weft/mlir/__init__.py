"""StableHLO modules as text, read into functions of arrays."""
