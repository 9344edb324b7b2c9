"""Products: plans, register tiles, packing."""
