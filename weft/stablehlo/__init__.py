"""Programs as StableHLO, the text that XLA and its kin read."""
