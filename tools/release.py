"""Builds a release and checks it: python tools/release.py [--tag].

Builds the wheel and the source distribution, compresses the wheel with zopfli, checks the size,
contents and description of both, installs the wheel into an empty environment, and runs it there.
With `--tag` and no problems, tags the commit with the version; with `--record`, adds the sizes to
the history of benchmarks. The files are in `dist/`.
"""

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "packing"))
import wheel_files  # noqa: E402

MAX_WHEEL_BYTES = 3_000_000
# What a wheel must have, and what neither distribution may have.
NEEDED = ("weft/__init__.py", "weft/py.typed", "weft/__main__.py", "weft/train/report/page.html")
UNWANTED = re.compile(r"(^|/)(tests|bench|\.venv|__pycache__|\.git)(/|$)|\.(pyc|so|o)$")
# A program that uses the installed package as a reader of the README does.
PROGRAM = """
import weft, weft.numpy as jnp
f = weft.jit(weft.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)))
assert f(jnp.ones(3)).shape == (3,)
from weft import linen, optim
model = linen.Dense(2)
params = model.init(weft.random.key(0), jnp.ones((1, 3)))
assert optim.adam(1e-3).init(params)
print(weft.__version__)
"""
# The extras that users install, each with a program that needs it. Those with None are gigabytes:
# pip resolves and finds all their files, but does not install them.
EXTRAS = {
    "train": "import weft.train.checkpoint, weft.train.data, weft.train.metrics",
    "mpi": "import mpi4py, weft.distributed",
    "cuda": None,
    "tpu": None,
}


def version() -> str:
    """The version that pyproject.toml names."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def agreement() -> list[str]:
    """What does not agree about the version."""
    now, found = version(), []
    init = (ROOT / "weft" / "version.py").read_text() if (ROOT / "weft/version.py").exists() else ""
    if init and now not in init:
        found.append(f"weft/version.py does not name {now}")
    if f"version: {now}\n" not in (ROOT / "CITATION.cff").read_text():
        found.append(f"CITATION.cff does not name {now}")
    changes = (ROOT / "CHANGELOG.md").read_text()
    if f"## {now}" not in changes and "## Unreleased" not in changes:
        found.append(f"CHANGELOG.md has no section for {now}")
    return found


def problems(names: list[str], size: int, wheel: bool) -> list[str]:
    """What is wrong with a distribution of these files and so many bytes."""
    found = [f"{name} does not belong there" for name in names if UNWANTED.search(name) and wheel]
    if wheel:
        found += [f"{name} is missing" for name in NEEDED if name not in names]
        if size > MAX_WHEEL_BYTES:
            found.append(f"the wheel has {size:,} bytes, more than {MAX_WHEEL_BYTES:,}")
    return found


def run(*command: str, cwd: Path = ROOT) -> str:
    print("$", " ".join(Path(c).name if "/" in c else c for c in command), flush=True)
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nrelease: this failed: {' '.join(command[:4])}")
    return done.stdout


def shrink(wheel: Path) -> None:
    """Compresses a wheel with zopfli, which finds shorter codes of the same format."""
    import zopfli.zlib

    def deflate(data: bytes) -> bytes:  # without the header and checksum of zlib's format
        return zopfli.zlib.compress(data)[2:-4]

    wheel_files.shrink(wheel, deflate)


def environment(folder: Path) -> str:
    """The interpreter of a new environment."""
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def installed(python: str) -> dict[str, int]:
    """Bytes of weft and of everything but pip in an environment, byte code included."""
    (packages,) = (Path(python).parent.parent / "lib").glob("python*/site-packages")
    sizes: dict[str, int] = {}
    for path in packages.rglob("*"):
        if path.is_file() and not path.is_symlink():
            name = path.relative_to(packages).parts[0]
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    everything = sum(size for name, size in sizes.items() if not name.startswith("pip"))
    return {"weft with byte code": sizes["weft"], "with all dependencies": everything}


def record(sizes: dict[str, int]) -> None:
    """Add sizes to the history that the benchmark pages show."""
    sys.path.insert(0, str(ROOT))
    from bench import machine, publish

    rows = [
        {"name": name, "unit": "MB", "figures": {"weft": float(f"{size / 1e6:.3g}")}}
        for name, size in sizes.items()
    ]
    run = {
        "date": datetime.date.today().isoformat(),
        "commit": machine.commit(),
        "command": "python tools/release.py --record",
        "machine": {"processor": platform.machine().replace("_", "-"), "cores": os.cpu_count()},
        "versions": {"python": machine.versions()["python"]},
        "rows": rows,
    }
    print(publish.add("install", run))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", action="store_true", help="tag the commit if all is well")
    parser.add_argument("--record", action="store_true", help="add the sizes to bench/history")
    parser.add_argument("--shrink", type=Path, metavar="WHEEL", help="only compress this wheel")
    options = parser.parse_args()
    if options.shrink:
        shrink(options.shrink)
        return
    wrong = agreement()
    if options.tag and run("git", "status", "--porcelain"):
        wrong.append("the working tree has changes that are not committed")
    if wrong:
        sys.exit("\n".join(wrong))
    dist = ROOT / "dist"
    for old in dist.glob("weft-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        tools = environment(Path(folder) / "tools")
        run(tools, "-m", "pip", "install", "-q", "build", "twine", "zopfli")
        run(tools, "-m", "build", "--outdir", str(dist))
        (wheel,), (source,) = dist.glob("weft-*.whl"), dist.glob("weft-*.tar.gz")
        names = zipfile.ZipFile(wheel).namelist()
        wrong = problems(names, wheel.stat().st_size, True)  # as `pip install .` builds it
        run(tools, str(Path(__file__)), "--shrink", str(wheel))
        with tarfile.open(source) as opened:
            wrong += problems(opened.getnames(), source.stat().st_size, False)
        if wrong:
            sys.exit("\n".join(wrong))
        run(tools, "-m", "twine", "check", "--strict", str(wheel), str(source))
        empty = environment(Path(folder) / "empty")
        run(empty, "-m", "pip", "install", "-q", str(wheel))
        assert run(empty, "-c", PROGRAM, cwd=Path(folder)).strip() == version()
        sizes = {"wheel": wheel.stat().st_size, **installed(empty)}
        print(run(empty, "-m", "weft", cwd=Path(folder)))
        for extra, program in EXTRAS.items():
            how = ["--dry-run"] if program is None else []
            run(empty, "-m", "pip", "install", "-q", *how, f"{wheel}[{extra}]")
            if program is not None:
                run(empty, "-c", program, cwd=Path(folder))
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, {len(names)} files")
    print(f"{source.name}: {source.stat().st_size:,} bytes")
    print(", ".join(f"{name}: {size:,} bytes" for name, size in sizes.items()))
    if options.record:
        record(sizes)
    if options.tag:
        run("git", "tag", "-a", f"v{version()}", "-m", f"weft {version()}")
        print(f"tagged v{version()}")


if __name__ == "__main__":
    main()
