"""Any PJRT plugin as a backend: programs go to its compiler as StableHLO."""
