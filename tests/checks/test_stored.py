"""Programs with checks on disk: another process plans and compiles nothing, and says the same."""

import os
import subprocess
import sys

import pytest

from weft.backends.llvm.native import loader

SCRIPT = """
import numpy as np
import weft
import weft.numpy as jnp
from weft.runtime import compiling

made = []
make = compiling.identify
def identify(*args):
    found = make(*args)
    made.append(found)
    return found
compiling.identify = identify

@weft.jit
def f(x, table):
    def step(c, i):
        return jnp.log(c) * table[i], c
    return weft.lax.scan(step, x, jnp.arange(8))[0] @ jnp.ones((3, 3))

@weft.jit
def g(x, table):
    def step(c, i):
        return jnp.log(c) * table[i], c

    return weft.lax.scan(step, x, jnp.arange(8))[0] @ jnp.ones((3, 3))

with weft.checks():
    for function in (f, g):
        print(function(np.full(3, 9.0), np.full(8, 4.0)))
        try:
            function(np.full(3, 1.5), np.full(8, 2.0))
        except weft.errors.NaNCheckError as error:
            print(error)
print(all(x is not None for x in made), "libllvmlite" in open("/proc/self/maps").read())
"""


@pytest.mark.skipif(not loader.supported(), reason="loaded by LLVM here")
def test_another_process_compiles_nothing(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(SCRIPT)
    environment = {**os.environ, "WEFT_CACHE": str(tmp_path / "cache")}

    def run():
        found = subprocess.run(
            [sys.executable, str(file)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert not found.returncode, found.stderr
        *lines, last = found.stdout.splitlines()
        return lines, last

    first, compiled = run()
    assert compiled == "True True"
    text = "\n".join(first)
    assert "log made nan at [0]: log(-" in text
    assert "program.py:18" in text and "program.py:24" in text, "each program has its own lines"
    again, compiled = run()
    assert again == first
    assert compiled == "True False"
