"""Empty wheels of given names, so that pip takes their places for filled.

`python tools/empty_distribution.py jax jaxlib --version 0.10.2 --into wheels` lets libraries that
ask for JAX be installed beside weft, which goes by its name (`python -m weft.as_jax`).
"""

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(name: str, version: str, folder: Path) -> Path:
    """A wheel with metadata and no files."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            "Summary: an empty distribution: weft goes by this name\n"
        ),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        lines.append(f"{path},sha256={digest.decode()},{len(text.encode())}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def main() -> None:
    """Write the wheels that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--version", default="0.10.2")
    parser.add_argument("--into", type=Path, default=Path("wheels"))
    given = parser.parse_args()
    for name in given.names:
        print(write_wheel(name, given.version, given.into))


if __name__ == "__main__":
    main()
