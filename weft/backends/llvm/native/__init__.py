"""Machine code, threads, caches: what runs on this machine."""
