"""Functions run by several devices: ``shard_map``, ``smap`` and ``pmap``."""
