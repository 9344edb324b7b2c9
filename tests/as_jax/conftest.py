"""A program of another library is no module to look for examples in."""

collect_ignore_glob = ["flaxformer_program.py"]
