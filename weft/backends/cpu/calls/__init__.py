"""Programs called on this machine: tables, the native caller, caches, shape-generic code."""
