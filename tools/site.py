"""Builds the documentation as a site: python tools/site.py [--serve] [--out FOLDER].

`./weft-docs` installs what this needs and runs it. Pages are those of `docs/`, the README and other
pages of the repository's root, and a reference page for each public module, made from docstrings.
Building needs no network.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Pages of the repository's root, and what they are called in the site.
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/README.md": "benchmarking.md",
}
# A heading of the menu, and its pages; those of a folder are listed by name.
MENU = {
    "Home": ["index.md"],
    "Getting started": ["getting-started/"],
    "Tutorials": ["tutorials/"],
    "Guides": (
        "tour.md networks.md optimisers.md train.md examples.md parallel.md scaling.md gpus.md"
        " tpus.md export.md performance.md debugging.md moving-from-jax.md ecosystem.md faq.md"
        " support.md"
    ).split(),
    "Reference": ["api/index.md", "knobs.md", "rules.md", "mathematics.md", "benchmarks.md"],
    "Inside weft": (
        "architecture.md core.md compiler.md backends.md trust.md benchmarking.md roadmap.md"
        " changelog.md contributing.md security.md decisions/"
    ).split(),
    "API": ["api/"],
}
SETTINGS = """\
site_name: weft
site_description: JAX's interface in pure Python, with a compiler of its own
docs_dir: pages
use_directory_urls: false
strict: true
theme:
  name: material
  font: false
  features: [navigation.tabs, navigation.prune, search.highlight, content.code.copy]
  palette:
    - media: "(prefers-color-scheme: light)"
      scheme: default
      toggle: {icon: material/weather-night, name: Dark}
    - media: "(prefers-color-scheme: dark)"
      scheme: slate
      toggle: {icon: material/weather-sunny, name: Light}
plugins: [search, offline]
# Ours takes the place of one that the plugin would fetch from the network.
extra: {polyfills: [assets/iframe-worker.js]}
extra_css: [assets/site.css]
markdown_extensions:
  [admonition, attr_list, tables, toc: {permalink: true}, pymdownx.highlight, pymdownx.superfences]
validation:
  links: {not_found: warn, anchors: warn, absolute_links: warn, unrecognized_links: warn}
"""
FENCED = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?\[[^\]\[]*\])\(([^)\s]+)\)")


def sources() -> dict[str, Path]:
    """The files of the site, by their place in it."""
    docs = ROOT / "docs"
    found = {
        str(path.relative_to(docs)): path
        for path in sorted(docs.rglob("*"))
        if path.is_file() and path.relative_to(docs).parts[0] != "api"
    }
    return {**found, **{name: ROOT / path for path, name in TOP.items()}}


def linked(text: str, page: str, origin: Path, places: dict[Path, str]) -> str:
    """A page whose links lead to other pages of the site; links to source files become names."""

    def one(found: re.Match[str]) -> str:
        label, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return found[0]
        place = places.get((origin.parent / path).resolve())
        if place is None:
            return label[1:-1]
        return f"{label}({os.path.relpath(place, os.path.dirname(page) or '.')}{mark}{anchor})"

    parts = FENCED.split(text)  # blocks of code are at odd places
    return "".join(part if i % 2 else LINK.sub(one, part) for i, part in enumerate(parts))


def title(text: str) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1].replace("`", "") if found else "weft"


def stage(folder: Path) -> list[str]:
    """Write all pages to a folder; their names in it."""
    from tools import api_docs

    found = sources()
    places = {path.resolve(): name for name, path in found.items()}
    for name, path in found.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
            target.write_text(linked(text, name, path, places), encoding="utf-8")
        else:
            shutil.copyfile(path, target)
    (folder / "assets").mkdir(exist_ok=True)
    for name in ("iframe-worker.js", "site.css"):
        shutil.copyfile(ROOT / "tools" / name, folder / "assets" / name)
    api_docs.write(folder / "api")
    if (folder / "api" / "README.md").exists():
        (folder / "api" / "README.md").rename(folder / "api" / "index.md")
    pages = (p.relative_to(folder) for p in folder.rglob("*.md"))
    return [str(p) for p in sorted(pages, key=lambda p: (p.parent, p.name != "index.md", p.stem))]


def menu(names: list[str], folder: Path) -> str:
    """The menu as YAML; every page is somewhere in it."""
    lines, listed = ["nav:"], set()
    for heading, entries in MENU.items():
        lines.append(f"  - {heading}:")
        for entry in entries:
            own = [entry] if not entry.endswith("/") else [n for n in names if n.startswith(entry)]
            for name in own:
                if name in listed:
                    continue
                listed.add(name)
                text = (folder / name).read_text(encoding="utf-8")
                lines.append(f'      - "{title(text)}": {name}')
    lost = [name for name in names if name not in listed]
    if lost:
        sys.exit(f"no heading of MENU in tools/site.py lists {', '.join(lost)}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="where it goes")
    parser.add_argument("--serve", action="store_true", help="then show it at localhost:8000")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        pages = Path(work) / "pages"
        names = stage(pages)
        (Path(work) / "mkdocs.yml").write_text(SETTINGS + menu(names, pages))
        command = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(options.out.resolve())]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}")
    print(f"{len(names)} pages: open {options.out / 'index.html'}")
    if options.serve:
        serve = [sys.executable, "-m", "http.server", "8000", "--bind", "127.0.0.1"]
        subprocess.run([*serve, "-d", str(options.out)], check=False)


if __name__ == "__main__":
    main()
