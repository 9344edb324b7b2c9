"""Runs tests on an emulated processor of the other architecture: `python tools/emulate.py [paths]`.

On x86-64 that is aarch64, on aarch64 x86-64. The first run fetches QEMU, a Python of that
architecture with the libraries it needs (Debian packages, unpacked into a folder, no root needed)
and wheels of what weft needs; later ones find them in `$WEFT_EMULATION`, by default
`~/.cache/weft-emulation`. Times mean nothing there; results do.
"""

from __future__ import annotations

import io
import lzma
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIRROR = os.environ.get("WEFT_DEBIAN", "http://deb.debian.org/debian")
SUITE, VERSION = "bookworm", "3.11"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# Of the emulated machine: Python, and what it and wheels are linked with.
PACKAGES = """
    python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libgcc-s1
    libstdc++6 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1
    libncursesw6 libtinfo6 libreadline8 libcrypt1 libdb5.3 libnsl2 libtirpc3 gcc-12-base
""".split()
WHEELS = ["numpy", "llvmlite", "ml_dtypes", "scipy-openblas32", "opt_einsum", "pytest"]
# A few minutes: one of each kind of kernel that is written for each processor, and the tiny tier.
TESTS = [
    "tests/machines/test_small_programs.py",
    "tests/laws/test_reproducible.py",
    "tests/test_tiny.py",
]


class Missing(Exception):
    """Something that emulation needs and that cannot be had here."""


def other() -> str:
    """The architecture to emulate."""
    here = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    if sys.platform != "linux" or here not in DEBIAN:
        raise Missing(f"QEMU's user mode is for Linux on {' or '.join(DEBIAN)}")
    return "aarch64" if here == "x86_64" else "x86_64"


def fetch(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read()
    except OSError as e:
        raise Missing(f"{address}: {e}") from e


def paths(architecture: str) -> dict[str, str]:
    """Where each package of an architecture lies on the mirror."""
    address = f"{MIRROR}/dists/{SUITE}/main/binary-{DEBIAN[architecture]}/Packages.xz"
    found = {}
    for entry in lzma.decompress(fetch(address)).decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line[:40])
        if "Package" in fields:
            found[fields["Package"]] = fields["Filename"]
    return found


def unpack(package: bytes, folder: Path) -> None:
    """The files of a Debian package: an ar archive with a tar archive in it."""
    at = 8
    while at < len(package):
        name = package[at : at + 16].decode().strip().rstrip("/")
        size = int(package[at + 48 : at + 58])
        if name.startswith("data.tar"):
            data = io.BytesIO(package[at + 60 : at + 60 + size])
            with tarfile.open(fileobj=data) as files:
                files.extractall(folder, filter="tar")
        at += 60 + size + size % 2


def emulator(folder: Path, architecture: str) -> str:
    """QEMU for programs of an architecture: the system's, or one that is fetched."""
    name = f"qemu-{architecture}"
    own = folder / "usr" / "bin" / f"{name}-static"
    found = shutil.which(f"{name}-static") or shutil.which(name)
    if found is None and not own.exists():
        here = "aarch64" if architecture == "x86_64" else "x86_64"
        unpack(fetch(f"{MIRROR}/{paths(here)['qemu-user-static']}"), folder)
    return found or str(own)


def make(folder: Path, architecture: str) -> None:
    """A folder with a Python of an architecture, and beside it what weft needs."""
    where = paths(architecture)
    for package in PACKAGES:
        print(f"emulate: fetching {package}", flush=True)
        unpack(fetch(f"{MIRROR}/{where[package]}"), folder / "root")
    for link in [p for p in (folder / "root").rglob("*") if p.is_symlink()]:
        to = os.readlink(link)
        if os.path.isabs(to):  # of the system it was made for: the same below the folder
            link.unlink()
            link.symlink_to(os.path.relpath(folder / "root" / to[1:], link.parent))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "site")]
    command += ["--python-version", VERSION, "--only-binary=:all:"]
    for tag in ("manylinux2014", "manylinux_2_17", "manylinux_2_27", "manylinux_2_28"):
        command += ["--platform", f"{tag}_{architecture}"]
    if subprocess.run([*command, *WHEELS]).returncode:
        raise Missing("pip has no wheels for it")
    (folder / "made").touch()


def run(arguments: list[str]) -> int:
    """The exit status of pytest on the emulated processor."""
    architecture = other()
    cache = os.environ.get("WEFT_EMULATION") or Path.home() / ".cache" / "weft-emulation"
    folder = Path(cache) / architecture
    folder.mkdir(parents=True, exist_ok=True)
    qemu = emulator(folder, architecture)
    if not (folder / "made").exists():
        make(folder, architecture)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'site'}"}
    environment.update(WEFT_CACHE=str(folder / "cache"), PYTHONPYCACHEPREFIX=str(folder / "pyc"))
    # Linux tells programs of the machine below: which vectors there are is said here
    environment.setdefault("WEFT_TEST_PROCESSOR", "avx2" if architecture == "x86_64" else "neon")
    command = [qemu, "-cpu", "max", "-L", str(folder / "root")]
    command += [str(folder / "root" / "usr" / "bin" / f"python{VERSION}")]
    # emulated programs can't start others: tests begin a Python with the emulator
    environment["WEFT_TEST_PYTHON"] = shlex.join(command)
    command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.machines.processors"]
    print(f"emulate: {architecture} as {environment['WEFT_TEST_PROCESSOR']}", flush=True)
    return subprocess.run([*command, *(arguments or TESTS)], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except Missing as e:
        print(f"emulate: NOT RUN, no emulation here: {e}")
