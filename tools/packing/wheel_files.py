"""Makes wheels smaller.

Comments, and docstrings of functions that aren't public, stay out of the code in a wheel.
Statements stay at their lines. The source distribution, editable installations and the repository
keep everything (decision 0054).
"""

import ast
import base64
import csv
import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

# A string, whose text may hold a number sign, or a comment.
_STRING_OR_COMMENT = re.compile(
    r'''("""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\''''
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|[ \t]*#[^\n]*""",
    re.DOTALL,
)


def without_comments(text: str) -> str:
    """Python code without its comments; statements and docstrings stay, at their lines.

    >>> without_comments("x = 1  # one\\n# two\\ny = '#'\\n")
    "x = 1\\n\\ny = '#'\\n"
    """
    return _STRING_OR_COMMENT.sub(lambda found: found[1] or "", text)


# Rooms without public names (docs/support.md), and modules of others that have none.
INTERNAL = re.compile(
    "weft/(backends|compiler|division|export/factorisations|kernel|parallel/transport"
    "|prims/lowerings|stablehlo)/"
    r"|weft/runtime/(?!(array|client|compiling|devices|function|places)\.py)"
    r"|weft/base/(checking|disk|events|forks|helpers|history|observing|progress|shares|sizes|surplus"
    r"|text)\.py"
)


def _hidden(tree: ast.Module, text: str, internal: bool) -> Iterator[ast.Constant]:
    """The docstrings of private functions that are only called, so that no other object, such as a
    method of arrays, can have them; in an internal module, those of all functions and classes."""
    values = {*re.findall(r"(?<!def )\b(_[A-Za-z]\w*)\b(?!\()", text)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            and (
                internal
                or (
                    isinstance(node, ast.FunctionDef)
                    and re.match("_[A-Za-z]", node.name)
                    and node.name not in values
                    and not node.decorator_list
                )
            )
            and len(node.body) > 1
            and ast.get_docstring(node) is not None
        ):
            yield node.body[0].value


def without_private_docstrings(text: str, name: str = "") -> str:
    """The code of the module at the path ``name``, without docstrings for developers; lines stay.

    >>> without_private_docstrings('def _f(x):\\n    "Why."\\n    return x\\n')
    'def _f(x):\\n\\n    return x\\n'
    """
    lines = text.splitlines(keepends=True)
    for value in _hidden(ast.parse(text), text, INTERNAL.match(name) is not None):
        for row in range(value.lineno - 1, value.end_lineno):
            lines[row] = "\n"
    return "".join(lines)


def bare(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of a wheel with less in their code, and with a list that says so."""
    made = {
        name: without_private_docstrings(without_comments(data.decode()), name).encode()
        if name.endswith(".py")
        else data
        for name, data in files.items()
    }
    (record,) = [name for name in files if name.endswith(".dist-info/RECORD")]
    return made | {record: record_of(made, record)}


def record_of(files: dict[str, bytes], name: str) -> bytes:
    """The list of a wheel's files with their digests and sizes; ``name`` is its own."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.writerow([path, "", ""] if path == name else [path, f"sha256={digest}", len(data)])
    return out.getvalue().encode()


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


def shrink(wheel: Path, deflate: Callable[[bytes], bytes] = deflated) -> None:
    """Leave out of a wheel what its users don't see, and compress it by ``deflate``."""
    with zipfile.ZipFile(wheel) as opened:
        infos = opened.infolist()
        made = bare({info.filename: opened.read(info) for info in infos})
    wheel.write_bytes(zip_of([(info, made[info.filename]) for info in infos], deflate))
    with zipfile.ZipFile(wheel) as opened:
        for name, data in made.items():
            assert opened.read(name) == data, name
