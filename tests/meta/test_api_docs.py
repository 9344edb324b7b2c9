"""The reference can be made, says the same every time, and leaves no public function out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.api_docs import FOLDER, ROOT, fenced, render, signature, undocumented

# Classes of other packages, passed on as they are.
EXCEPTIONS = {
    "weft.dtypes.iinfo": "ml_dtypes gives it no docstring",
    "weft.numpy.iinfo": "ml_dtypes gives it no docstring",
}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return render()


def test_every_public_function_has_a_docstring() -> None:
    found = set(undocumented())
    assert not sorted(found - EXCEPTIONS.keys())
    assert not sorted(EXCEPTIONS.keys() - found), "documented by now: take these off the list"


def test_the_tool_writes_the_same_pages_in_another_process(tmp_path: Path, pages: dict) -> None:
    (tmp_path / "weft.gone.md").write_text("a page of a module that is no more")
    command = [sys.executable, str(ROOT / "tools" / "api_docs.py"), str(tmp_path)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "7"})
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == pages


def test_main_modules_have_a_page(pages: dict) -> None:
    named = "weft numpy numpy.linalg numpy.fft lax lax.linalg random nn nn.initializers tree"
    named += " scipy.special scipy.linalg tree_util extend.core debug stages typing errors"
    wanted = {name if name == "weft" else f"weft.{name}" for name in named.split()}
    assert wanted <= {name.removesuffix(".md") for name in pages}
    assert all(f"[{module}]({module}.md)" in pages["README.md"] for module in wanted)


def test_pages_hold_no_address_and_close_their_fences(pages: dict) -> None:
    for name, text in pages.items():
        assert not re.search(r" at 0x[0-9a-f]{6}", text), name
        assert text.count("```") % 2 == 0, name


def test_links_lead_to_pages_of_the_reference(pages: dict) -> None:
    link = re.compile(r"\]\(([^)\s#]+)")
    for name, text in pages.items():
        prose = re.sub(r"```.*?```|``.*?``|`[^`]*`", "", text, flags=re.DOTALL)
        found = [target for target in link.findall(prose) if "://" not in target]
        assert [target for target in found if target not in pages] == [], name


def test_an_entry_has_signature_text_and_example(pages: dict) -> None:
    text = pages["weft.numpy.md"].partition("## `cumsum`\n")[2].partition("\n## ")[0]
    assert "`weft.numpy.cumsum(a, axis=None, dtype=None, out=None)`" in text
    assert "```python\n>>> " in text


def test_ufuncs_have_the_parameters_that_their_text_explains(pages: dict) -> None:
    text = pages["weft.numpy.md"].partition("## `add`\n")[2].partition("\n## ")[0]
    assert "`weft.numpy.add(x, y, /)`" in text and "- `y`: " in text


def test_fields_that_hold_functions_are_not_methods(pages: dict) -> None:
    text = pages["weft.linen.md"].partition("## `BatchNorm`\n")[2].partition("\n## ")[0]
    assert "bias_init=" in text and "- `bias_init()`" not in text


def test_signatures_are_as_a_reader_would_write_them() -> None:
    nothing = object()

    def f(a, /, b, *, c=nothing, d=len, e=float, **rest):
        pass

    assert signature(f) == "(a, /, b, *, c=..., d=len, e=float, **rest)"
    assert signature(lambda s=frozenset({str, int}): None) == "(s={int, str})"
    assert signature(lambda *parts, key: None) == "(*parts, key)"
    assert signature(lambda x, y=1, /: None) == "(x, y=1, /)"


def test_examples_are_fenced() -> None:
    text = "Doubles.\n\n>>> 2 * 2\n4\n\nThat is all."
    assert fenced(text) == "Doubles.\n\n```python\n>>> 2 * 2\n4\n```\n\nThat is all."


def test_sections_are_headings_and_arguments_a_list() -> None:
    text = "Doubles.\n\nArgs:\n    x: A number\n        to double.\n\nReturns:\n    Another."
    text += "\n\nExample:\n    >>> 2 * 2\n    4"
    assert fenced(text) == (
        "Doubles.\n\n**Args**\n\n- `x`: A number\n  to double.\n\n**Returns**\n\nAnother.\n\n"
        "**Example**\n\n```python\n>>> 2 * 2\n4\n```"
    )


def test_pages_are_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert f"{FOLDER.relative_to(ROOT).as_posix()}/" in ignored


def test_headings_of_numpy_do_not_become_headings_of_the_page():
    text = fenced("Give it back.\n\nSee Also\n--------\nother : which does\n")
    assert "---" not in text and "**See Also**" in text
