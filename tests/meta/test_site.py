"""The site: every page is in its menu, and every link leads to a page of it."""

import re

from tools import site


def test_every_page_is_in_the_menu_and_links_lead_to_pages(tmp_path, monkeypatch):
    from tools import api_docs

    # the pages of the reference are made from docstrings, which has a test of its own
    monkeypatch.setattr(api_docs, "render", lambda: {"README.md": "# Reference\n"})
    names = site.stage(tmp_path)
    told = site.menu(names, tmp_path)
    assert all(f": {name}\n" in told for name in names)
    lost = []
    for name in names:
        text = site.FENCED.sub("", (tmp_path / name).read_text())
        for target in re.findall(r"\]\(([^)\s#]+)", text):
            if "://" not in target and not (tmp_path / name).parent.joinpath(target).exists():
                lost.append(f"{name}: {target}")
    assert not lost, lost


def test_pages_fetch_nothing_and_modules_come_before_what_is_in_them(tmp_path, monkeypatch):
    from tools import api_docs

    pages = {f"{name}.md": f"# {name}\n" for name in ("README", "weft.nn", "weft", "weft.ad")}
    monkeypatch.setattr(api_docs, "render", lambda: pages)
    names = [name for name in site.stage(tmp_path) if name.startswith("api/")]
    assert names == ["api/index.md", "api/weft.md", "api/weft.ad.md", "api/weft.nn.md"]
    assert "polyfills: [assets/iframe-worker.js]" in site.SETTINGS  # else one from the network
    assert (tmp_path / "assets" / "iframe-worker.js").exists()
    assert "extra_css: [assets/site.css]" in site.SETTINGS
    assert (tmp_path / "assets" / "site.css").exists()


def test_links_are_those_of_the_site():
    docs = site.ROOT / "docs"
    places = {docs / "tour.md": "tour.md", site.ROOT / "README.md": "index.md"}
    text = (
        "[a](../README.md#x) [b](tour.md) [c](../weft/py.typed) [d](https://x.y)\n```\n[e](f)\n```"
    )
    made = site.linked(text, "guides/page.md", docs / "page.md", places)
    assert made.startswith("[a](../index.md#x) [b](../tour.md) c [d](https://x.y)")
    assert made.endswith("[e](f)\n```")


def test_a_page_without_a_place_in_the_menu_is_refused(tmp_path):
    (tmp_path / "new.md").write_text("# New\n")
    names = ["new.md"]
    for entries in site.MENU.values():
        for entry in entries:
            if not entry.endswith("/"):
                (tmp_path / entry).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / entry).write_text("# Page\n")
                names.append(entry)
    try:
        site.menu(sorted(set(names)), tmp_path)
    except SystemExit as error:
        assert "new.md" in str(error)
    else:
        raise AssertionError("a page that nobody finds")
