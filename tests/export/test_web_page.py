"""Web pages with a compiled function inside, in headless Chromium."""

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import export, lax
from weft import numpy as jnp
from weft.backends.llvm.calls.dispatch import supported

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
OPTIONS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync
--virtual-time-budget=5000""".split()
in_browser = pytest.mark.skipif(
    not CHROMIUM or not supported(), reason="there is no Chromium to open pages, or no native code"
)


def opened(page, folder):
    """What a page, opened as a file, wrote to ``data-found`` of its body."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [CHROMIUM, *OPTIONS, profile, "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<body[^>]* data-found="([^"]*)"', done.stdout)
    assert found, done.stdout[-2000:]
    return json.loads(html.unescape(found[1]))


def classifier():
    """Scores of images by a small network, trained on noisy strokes; the images and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 256)
    strokes = (rng.random((10, 64)) > 0.6)[labels] * rng.uniform(0.6, 1, (256, 64))
    images = (strokes + rng.normal(size=(256, 64)) * 0.1).astype(np.float32)
    w1 = rng.normal(size=(64, 32)).astype(np.float32) / 8
    w2 = rng.normal(size=(32, 10)).astype(np.float32) / 6

    def scores(params, x):
        return weft.nn.relu(x @ params[0]) @ params[1]

    @weft.jit
    def step(params):
        def loss(params):
            found = weft.nn.log_softmax(scores(params, images))
            return -jnp.take_along_axis(found, labels[:, None], 1).mean()

        return weft.tree.map(lambda p, g: p - 0.5 * g, params, weft.grad(loss)(params))

    params = lax.fori_loop(0, 100, lambda _, p: step(p), (jnp.asarray(w1), jnp.asarray(w2)))
    return weft.jit(lambda x: scores(params, x)), images[:32], labels[:32]


@in_browser
def test_a_page_reads_digits(tmp_path):
    fun, images, labels = classifier()
    made = export.to_c(fun, (images,), tmp_path, name="scores", target="wasm32")
    script = (
        f"const images = {json.dumps(images.ravel().tolist())};\n"
        "document.body.dataset.found = JSON.stringify(Array.from(scores(images)[0]));"
    )
    page = made.html(script, "<p>digits</p>", "a < b")
    assert "<title>a &lt; b</title>" in page and "<p>digits</p>" in page
    # a page for a server as well as for a file: it asks for nothing
    assert not re.search(r"(src|href)=|import |export ", page)
    found = np.reshape(opened(page, tmp_path), (32, 10))
    np.testing.assert_allclose(found, fun(images), rtol=1e-4, atol=1e-5)
    assert (found.argmax(1) == labels).mean() > 0.9


@in_browser
def test_integers_and_several_results(tmp_path):
    fun = weft.jit(lambda x, n: (jnp.cumsum(x) + n, x > 1, x.sum()))
    args = (np.arange(5, dtype=np.int32), np.int32(3))
    made = export.to_c(fun, args, tmp_path, name="f", target="wasm32")
    script = (
        "const found = f([0, 1, 2, 3, 4], 3).map((x) => Array.from(x));\n"
        "let wrong = '';\n"
        "try { f([1], 2); } catch (error) { wrong = error.message; }\n"
        "document.body.dataset.found = JSON.stringify([...found, wrong]);"
    )
    *found, wrong = opened(made.html(script), tmp_path)
    assert found == [np.asarray(x).ravel().tolist() for x in fun(*args)]
    assert "argument 0 has length 1, not 5" in wrong


# Draws strokes with the pen, and says which digit the page has read.
DRAW = """
const pen = (kind, x, y, target = canvas) => {
  const box = canvas.getBoundingClientRect();
  target.dispatchEvent(new PointerEvent(kind, {
    bubbles: true, clientX: box.left + x * box.width, clientY: box.top + y * box.height }));
};
const read_ = (strokes) => {
  document.querySelector("button").click();
  for (const [first, ...rest] of strokes) {
    pen("pointerdown", ...first);
    for (const place of rest) pen("pointermove", ...place);
    pen("pointerup", ...first, window);
  }
  return answer.value;
};
const ring = [...Array(33).keys()].map((i) =>
  [0.5 + 0.25 * Math.sin(i * Math.PI / 16), 0.5 - 0.42 * Math.cos(i * Math.PI / 16)]);
const seven = [[0.25, 0.1], [0.75, 0.1], [0.45, 0.92]], bar = [[0.32, 0.52], [0.72, 0.52]];
const found = [read_([ring]), read_([seven, bar]), read_([])];
document.body.dataset.found = JSON.stringify(found);
"""


@in_browser
@pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="the digits come with scikit-learn"
)
def test_the_example_reads_what_is_drawn(tmp_path):
    command = [sys.executable, "examples/digits_mlp.py", "--short", "--out", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    page = (tmp_path / "digits.html").read_text(encoding="utf-8")
    assert opened(page.replace("\n</script>", DRAW + "</script>"), tmp_path) == ["0", "7", ""]


@pytest.mark.skipif(not supported(), reason="there is no native code on this system")
def test_what_is_no_page(tmp_path):
    fun = weft.jit(lambda x: x + 1)
    with pytest.raises(ValueError, match="f was written for c, and a page needs WebAssembly"):
        export.to_c(fun, (1.0,), tmp_path, name="f", target="c").html("")
    made = export.to_c(fun, (1.0,), tmp_path, name="f", target="wasm32")
    with pytest.raises(ValueError, match="the script has </script"):
        made.html("'</script>'")
