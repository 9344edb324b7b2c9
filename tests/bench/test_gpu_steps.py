"""Rows of a GPU's training steps and small arrays: what they compute, and what is said of them."""

import json
import subprocess
import sys

from bench import gpu_steps


def test_a_row_is_measured_by_a_process_of_its_own(tmp_path):
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench.gpu_steps", "--small", "--only", "weft"]
    command += ["--rows", "Adam, equal leaves", "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = json.loads(out.read_text()).values()
    assert set(row) == {"weft"} and row["weft"]["us"] > 0 and "us a leaf" in row["weft"]
    assert "us a leaf" in done.stdout and "jax not run" in done.stdout


def test_ratios_are_to_jax():
    ours = {"us": 50.0, "peak": 80.0, "first": 0.5}
    theirs = {"us": 100.0, "peak": 100.0, "first": 2.0}
    said = gpu_steps._told("GPT step", {"jax": theirs, "weft": ours})
    assert said.endswith("(time 0.50, peak 0.80, first 0.25 of JAX's)")
    failed = gpu_steps._told("GPT step", {"jax": {"error": "TimeoutExpired"}, "weft": ours})
    assert "jax TimeoutExpired" in failed and "of JAX's" not in failed
