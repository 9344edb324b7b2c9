"""First-order primitives with all their rules, one family a file."""
