"""Pictures of programs: what their pages hold, and that a browser draws them."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.api.picture import page as picture
from weft.api.picture.data import page_data
from weft.base import knobs
from weft.runtime.drawing import Part, Value, memory_over_time, peak

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
X = np.ones((64, 32), np.float32)


def network(w, x):
    h = jnp.tanh(x @ w)

    def body(carry, _):
        carry = jnp.sin(carry) @ w  # the line of the loop
        return carry, carry.sum()

    last, sums = lax.scan(body, h, None, length=6)
    return (last**2).mean() + sums.sum()


def step(w, x):
    value, grad = weft.value_and_grad(network)(w, x)
    return value, w - 0.1 * grad


ARGS = (np.full((32, 32), 0.1, np.float32), X)


def drawn(told):
    return page_data(told.name, str(told), told._parts())


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("measure", [False, True])
def test_a_page_holds_the_program(backend, measure, tmp_path):
    with knobs.scope(backend=backend):
        file = tmp_path / "step.html"
        told = weft.explain(step, quiet=True, measure=measure, html=file)(*ARGS)
    text = file.read_text(encoding="utf-8")
    assert text == told.html() and "<link" not in text and "<script src" not in text
    found = drawn(told)
    parts = found["parts"]
    assert found["top"] and max(found["top"]) < len(parts)
    loops = [p for p in parts if p["inner"]]
    assert loops and all(p["rounds"] == 6 for p in loops)
    # every value that a part reads inside of a region is written before, or is an argument
    read = {v for i in found["top"] for v in parts[i]["ins"]}
    assert read & {v for i in found["top"] for v in parts[i]["outs"]}
    assert len(found["memory"]) == len(found["top"])
    assert found["peak"]["size"] == max(found["memory"]) >= 3 * X.nbytes
    (number,) = [n for n, f in enumerate(found["files"]) if f["name"].endswith("test_picture.py")]
    shown = dict(found["files"][number]["lines"])
    costs = {line: cost for line, *cost in found["costs"][number]}
    dearest = max(costs, key=lambda line: costs[line][1])
    assert "the line of the loop" in shown[dearest]
    measured = measure and backend == "native"
    assert found["measured"] is measured
    if measured:
        assert all(parts[i]["seconds"] is not None for i in found["top"])


def part(name, ins, outs, inner=()):
    values = lambda names: tuple([Value(ord(n), n, 100) for n in names])
    return Part(name, "kernel", name, values(ins), values(outs), inner=tuple(inner))


def test_memory_over_time():
    parts = [part("k0", "a", "b"), part("k1", "b", "c"), part("k2", "ac", "d")]
    assert memory_over_time(parts) == [200, 300, 300]
    assert memory_over_time([*parts, part("k3", "d", "e")], [ord("c")]) == [200, 300, 300, 400]
    loop = part("loop", "a", "b", [part("i0", "x", "y"), part("i1", "y", "z")])
    assert memory_over_time([loop]) == [200 + 300]
    at, moment = peak(parts)
    assert at == 1 and [v.type for v, _ in moment.held] == ["a", "b", "c"]
    assert [writer for _, writer in moment.held] == [-1, 0, 1]
    assert memory_over_time([]) == [] and peak([])[1].size == 0


def test_strings_of_the_user_end_no_script():
    def odd(x):
        return jnp.sin(x)  # </script><b>

    text = weft.explain(odd, quiet=True)(X).html()
    assert text.count("</script>") == 1 and "<b>" not in text


def test_notebooks_show_the_page():
    told = weft.explain(step, quiet=True)(*ARGS)
    assert "<iframe" in told._repr_html_() and "<details" in told._repr_html_()


def long(x):
    for _ in range(2000):
        x = jnp.sin(x) * 2 + x.sum() - 1
    return x


def test_a_program_of_ten_thousand_equations():
    with knobs.scope(backend="reference"):  # a part for each equation
        told = weft.explain(long, quiet=True)(jnp.ones(4))
    assert told.equations >= 10_000
    found = drawn(told)
    assert len(found["parts"]) == told.equations
    assert told._repr_html_().count("<iframe") == 0


in_browser = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium to draw pages")
OPTIONS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync
--virtual-time-budget=5000""".split()
# What a reader sees, as attributes of the page.
LOOK = """<script>
const panel = get("code"), top_ = panel.offsetTop + panel.scrollTop;
const rows = [...panel.children], most = Math.max(...rows.map((row) => Number(row.dataset.cost)));
const dearest = rows.find((row) => Number(row.dataset.cost) === most);
const ends = [...document.querySelectorAll("td.place")].map((cell) => {
  const part = document.createRange(), text = cell.firstChild;
  if (!text) return true;
  part.setStart(text, text.length - 3);  // the line and a mark of direction
  part.setEnd(text, text.length);
  const box = part.getBoundingClientRect(), around = cell.getBoundingClientRect();
  return box.left >= around.left && box.right <= around.right;
});
Object.assign(document.body.dataset, {
  dearest: dearest.textContent, inside: document.documentElement.scrollWidth <= innerWidth,
  visible: dearest.offsetTop >= top_ && dearest.offsetTop < top_ + panel.clientHeight,
  ends: ends.every((end) => end),
  inked: [...document.querySelectorAll("canvas")].filter((canvas) => canvas.clientHeight).map(
    (canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
      .some((value) => value)),
});
</script>"""


def looked_at(html, width, folder, look=LOOK):
    """The attributes of a page's body in a window."""
    file = folder / "page.html"
    file.write_text(html.replace("</body>", look + "</body>"), encoding="utf-8")
    where = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1400"]
    command = [CHROMIUM, *OPTIONS, *where, "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    body = re.search(r"<body([^>]*)>", done.stdout)[1]
    return done.stdout, dict(re.findall(r'data-(\w+)="([^"]*)"', body))


@in_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_draws_it(width, tmp_path):
    told = weft.explain(step, quiet=True, measure=True)(*ARGS)
    page, seen = looked_at(told.html(), width, tmp_path)
    assert seen["ready"].startswith(f"{len(drawn(told)['top'])} boxes, ")
    assert "the line of the loop" in seen["dearest"] and "peak " in page
    assert json.dumps(told.name)[1:-1] in page
    assert (seen["visible"], seen["inside"], seen["ends"]) == ("true",) * 3
    assert seen["inked"] == "true,true,true"


# A reader looks closely at one of many parts, selects it and makes the window smaller.
CLOSE = """<script>
const start = performance.now(), box = boxes[4000], around = graph.getBoundingClientRect();
const at = { clientX: around.left + view.x + view.k * (box.x + box.w / 2),
  clientY: around.top + view.y + view.k * (box.y + box.h / 2) };
const before = view.k;
for (let i = 0; i < 5; i++)
  graph.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, cancelable: true, ...at }));
pick([under(at).i]);
window.dispatchEvent(new Event("resize"));
Object.assign(document.body.dataset, {
  found: [...picked].join() === String(box.i), times: Math.round(view.k / before),
  told: get("told").textContent.includes("test_picture.py"),
  quick: performance.now() - start < 3000,
});
get("fit").click();
document.body.dataset.fitted = Math.round(view.k / before);
</script>"""


@in_browser
def test_a_browser_draws_ten_thousand_parts(tmp_path):
    with knobs.scope(backend="reference"):
        told = weft.explain(long, quiet=True)(jnp.ones(4))
    count = len(drawn(told)["top"])
    _, seen = looked_at(told.html(), 1280, tmp_path, CLOSE)
    assert count >= 10_000 and seen["ready"].startswith(f"{count} boxes, ")
    assert (seen["found"], seen["told"], seen["quick"]) == ("true",) * 3
    assert (seen["times"], seen["fitted"]) == ("20", "1")  # exp(5 * 300 / 500)


@in_browser
def test_a_browser_shows_what_devices_send(tmp_path):
    told = weft.explain(step, quiet=True)(*ARGS)
    sent = ["over 8 devices (x=8): 1 collective", "    all-reduce of f32[8,8] over x"]
    text = "\n".join([str(told), *sent])
    page, _ = looked_at(picture.page(told.name, text, told._parts()), 1280, tmp_path)
    assert re.search(r'<p id="devices">([^<]*)</p>', page)[1] == "\n".join(sent)


@in_browser
def test_a_browser_draws_ten_thousand_equations(tmp_path):
    with knobs.scope(backend="reference"):  # a part for each equation
        told = weft.explain(long, quiet=True)(jnp.ones(4))
    _, seen = looked_at(told.html(), 1280, tmp_path)
    assert seen["ready"].startswith(f"{told.equations} boxes, ") and seen["inked"] == "true,true"


NOTHING = """<script>
const seen = (id) => get(id).getBoundingClientRect().height > 0;
Object.assign(document.body.dataset, {
  told: get("nothing").innerText, sections: [...document.querySelectorAll("section")].filter(
    (section) => section.getBoundingClientRect().height).length,
  canvases: ["graph", "memory", "time"].some(seen),
});
</script>"""


@in_browser
@pytest.mark.parametrize(
    "fun", [lambda x: (3.0, x), pytest.param(lambda x: (), marks=pytest.mark.full)]
)
def test_a_browser_says_that_nothing_runs(fun, tmp_path):
    told = weft.explain(fun, quiet=True, measure=True)(X)
    assert drawn(told)["top"] == []
    _, seen = looked_at(told.html(), 1280, tmp_path, NOTHING)
    assert seen["told"] == "Nothing runs: every result is an argument or a constant."
    assert (seen["sections"], seen["canvases"]) == ("1", "false")


@in_browser
def test_a_browser_draws_kernels_of_empty_arrays(tmp_path):
    told = weft.explain(lambda x: jnp.sin(x[:0]), quiet=True)(X)
    look = "<script>document.body.dataset.width = boxes[0].w * view.k;</script>"
    _, seen = looked_at(told.html(), 1280, tmp_path, look)
    assert seen["ready"] == "1 boxes, 0 edges" and float(seen["width"]) > 100
