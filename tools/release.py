"""Builds a release and checks it: python tools/release.py [--tag].

Builds the wheel and the source distribution, leaves comments out of the wheel's code and compresses
it with zopfli, checks the size, contents and description of both, installs the wheel into an empty
environment, and runs it there. With `--tag` and no problems, tags the commit with the version; with
`--record`, adds the sizes to the history of benchmarks. The files are in `dist/`.
"""

import argparse
import ast
import base64
import csv
import datetime
import hashlib
import io
import os
import platform
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import tokenize
import tomllib
import venv
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def deflated(data: bytes) -> bytes:
    """`data` compressed by zlib, as in every wheel."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return deflate.compress(data) + deflate.flush()


def zip_of(files: list[tuple[zipfile.ZipInfo, bytes]], deflate: Callable[[bytes], bytes]) -> bytes:
    """A zip file with these files; `zipfile` itself accepts no other compressor."""
    body, directory = bytearray(), bytearray()
    for info, data in files:
        name, packed = info.filename.encode(), deflate(data)
        year, month, day, hour, minute, second = info.date_time
        fields = struct.pack(
            "<HHHHHLLLHH", 20, 0x800, zipfile.ZIP_DEFLATED, hour << 11 | minute << 5 | second // 2,
            (year - 1980) << 9 | month << 5 | day, zlib.crc32(data), len(packed), len(data),
            len(name), 0,
        )  # fmt: skip
        unix, at = 3, len(body)
        directory += b"PK\1\2" + struct.pack("<BB", 20, unix) + fields
        directory += struct.pack("<HHHLL", 0, 0, 0, info.external_attr, at) + name
        body += b"PK\3\4" + fields + name + packed
    count = len(files)
    end = struct.pack("<HHHHLLH", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + b"PK\5\6" + end)


def without_comments(text: str) -> str:
    """Python code without its comments; statements and docstrings stay, at their lines.

    >>> without_comments("x = 1  # one\\n# two\\ny = '#'\\n")
    "x = 1\\n\\ny = '#'\\n"
    """
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    found = "".join(lines)
    before, after = (ast.dump(ast.parse(t), include_attributes=True) for t in (text, found))
    assert before == after
    return found


def record_of(files: dict[str, bytes], name: str) -> bytes:
    """The list of a wheel's files with their digests and sizes; ``name`` is its own."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.writerow([path, "", ""] if path == name else [path, f"sha256={digest}", len(data)])
    return out.getvalue().encode()


def bare(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of a wheel without comments in their code, and with a list that says so."""
    made = {
        name: without_comments(data.decode()).encode() if name.endswith(".py") else data
        for name, data in files.items()
    }
    (record,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    return made | {record: record_of(made, record)}


def shrink(wheel: Path) -> None:
    """Leaves the comments out of a wheel, and compresses it with zopfli, which finds shorter codes
    of the same format."""
    import zopfli.zlib

    def deflate(data: bytes) -> bytes:  # without the header and checksum of zlib's format
        return zopfli.zlib.compress(data)[2:-4]

    with zipfile.ZipFile(wheel) as opened:
        infos = opened.infolist()
        made = bare({info.filename: opened.read(info) for info in infos})
    wheel.write_bytes(zip_of([(info, made[info.filename]) for info in infos], deflate))
    with zipfile.ZipFile(wheel) as opened:
        for name, data in made.items():
            assert opened.read(name) == data, name


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
        run(tools, str(Path(__file__)), "--shrink", str(wheel))
        names = zipfile.ZipFile(wheel).namelist()
        wrong = problems(names, wheel.stat().st_size, True)
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
