"""Compiled functions as libraries for C: a header, and native code or C source beside it."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from weft.api.jit import JitFunction
from weft.backends.c.helpers import is_own
from weft.backends.c.program import Unwritable, source
from weft.backends.cpu.standalone.link import NeedsPython, link
from weft.backends.llvm.native.processor import ELSEWHERE, PROCESSORS
from weft.base import knobs
from weft.base.lazy import folder_of
from weft.base.record import Record
from weft.base.source import summarize
from weft.base.traceback import api_boundary
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, jaxprs_in_params
from weft.export.exported import Exported, exported_stage
from weft.export.factorisations.programs import first_of, needs_lapack, written_out
from weft.export.loading import deserialize
from weft.export.web import Unavailable, is_signed, page_code, type_of, whole_page
from weft.tree.functions import tree_flatten_with_path, tree_structure, tree_unflatten
from weft.tree.keys import keystr

NATIVE, PLAIN, WEB = "native", "c", "wasm32"
LAPACK, OWN = "lapack", "own"
TARGETS = (NATIVE, *PROCESSORS, PLAIN)
# Routines that keep addresses in 64 bits: on the web, kernels do their work.
_WEB_ROUTINES = (
    "-convolutions,-windows,-fourier,-sorting,-scatter,-cumulative,-special,-permutations,-draws"
)
# Knobs that plans depend on.
_KNOBS = ("enable_x64", "denormals", "reproducible", "deterministic_ops")
_NAME = re.compile(r"[A-Za-z]\w*")
_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if"
    " inline int long main register restrict return short signed sizeof static struct switch"
    " typedef union unsigned void volatile while".split()
)
# Names of C's standard library, and those of its mathematics, which are there for float and long
# double, too.
_LIBRARY = frozenset(
    "abort abs access alarm asctime atexit atof atoi atol atoll bcmp bcopy bind bsearch bzero "
    "calloc clearerr clock close connect ctime difftime div dup environ errno exec execv exit "
    "fclose feof ferror fflush ffs fgetc fgets fopen fork fprintf fputc fputs fread free "
    "freopen fscanf fseek fsetpos ftell fwrite getc getchar getenv getpid gets gmtime index "
    "isalnum isalpha isdigit islower isspace isupper kill labs ldiv link listen llabs lldiv "
    "localtime longjmp lseek malloc mblen memchr memcmp memcpy memmove memset mktime nice open "
    "pause perror pipe poll printf putc putchar puts qsort raise rand random read realloc recv "
    "remove rename rewind rindex scanf select send setbuf setjmp signal sleep socket sprintf "
    "srand srandom sscanf stat stderr stdin stdout strcat strchr strcmp strcoll strcpy strcspn "
    "strerror strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtok strtol "
    "strtoul system time times tolower toupper ungetc unlink usleep vfprintf vprintf vsprintf "
    "wait wctomb write signgam".split()
)
_MATHEMATICS = frozenset(
    "acos acosh asin asinh atan atan2 atanh cabs cacos carg casin catan cbrt ccos ceil cexp "
    "cimag clog conj copysign cos cosh cpow cproj creal csin csqrt ctan drem erf erfc exp exp10 "
    "exp2 expm1 fabs fdim finite floor fma fmax fmin fmod fpclassify frexp gamma hypot ilogb "
    "isfinite isgreater isinf isless isnan isnormal isunordered j0 j1 jn ldexp lgamma llrint "
    "llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow "
    "remainder remquo rint round scalb scalbln scalbn signbit significand sin sincos sinh sqrt "
    "tan tanh tgamma trunc y0 y1 yn".split()
)
_KINDS = {"f4": "float", "f8": "double", "c8": "float", "c16": "double", "b1": "uint8_t"}


class CLibrary(Record):
    """The files of a function that ``to_c`` wrote.

    Args:
        name: the name of the function in C.
        header: the path of the header; None for WebAssembly.
        files: the paths of all files.
        target: the machine that the files are for.
        arena_bytes: the bytes of memory that a call works in.
        calls: the functions of BLAS and LAPACK that a program with it links with.

    Example:
        >>> import tempfile, weft
        >>> from weft import export
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = export.to_c(weft.jit(lambda x: x + 1), (1.0,), folder, name="more")
        >>> made.name, made.header.name
        ('more', 'more.h')
    """

    name: str
    header: Path | None
    files: tuple[Path, ...]
    target: str
    arena_bytes: int
    calls: tuple[str, ...] = ()

    @property
    def shared(self) -> Path | None:
        """The path of the shared library; None for C source."""
        return next((path for path in self.files if path.suffix == ".so"), None)

    def html(self, script: str, body: str = "", title: str | None = None) -> str:
        """Return a web page that has the function inside: one file, which opens without a server.

        Args:
            script: JavaScript that runs when the function is loaded; it calls it by its name, with
                arrays of numbers or typed arrays, and gets an array of typed arrays.
            body: HTML of the page.
            title: title of the page. By default the name of the function.

        Returns:
            The text of the page.

        Example:
            >>> import tempfile, weft
            >>> from weft import export
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     f = weft.jit(lambda x: x + 1)
            ...     made = export.to_c(f, (1.0,), folder, name="more", target="wasm32")
            ...     page = made.html("document.body.append(more(41)[0][0]);")
            >>> page.splitlines()[0]
            '<!DOCTYPE html>'
        """
        if self.target != WEB:
            raise ValueError(
                f"{self.name} was written for {self.target}, and a page needs WebAssembly: write"
                f" to_c(..., target={WEB!r})"
            )
        if "</script" in script.lower():
            raise ValueError(r"the script has </script, which would end it: write <\/script")
        module, code = (
            next(path for path in self.files if path.suffix == suffix)
            for suffix in (".wasm", ".js")
        )
        text = code.read_text(encoding="utf-8")
        return whole_page(self.name, text, module.read_bytes(), script, body, title or self.name)


@api_boundary
def to_c(
    fun_jit: Callable[..., Any],
    args: Sequence[Any],
    folder: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    target: str = "native",
    linear_algebra: str | None = None,
) -> CLibrary:
    """Write a compiled function as a library that C programs call.

    The library needs no Python and allocates no memory: intermediate values are in an arena of
    fixed size. The header says what each argument and result is. All of them are pointers to
    row-major arrays, and results must not overlap arguments, except that the memory of a donated
    argument may also be given for the result that replaces it.

    With the default target, the code is the code that ``jit`` runs here, and gives the same bits.
    Loops run in the calling thread, unless the program gives the library a function that shares
    them among threads: the header has an example.

    Args:
        fun_jit: the function, compiled by ``jit``.
        args: its arguments, or ``ShapeDtypeStruct`` of them.
        folder: where to write the files. It is made if it does not exist.
        kwargs: its keyword arguments.
        name: the name of the function in C. By default that of ``fun_jit``.
        target: the machine to write for. ``'native'`` is this processor; ``'aarch64'``,
            ``'x86-64'``, ``'x86-64-v3'`` (AVX2) and ``'x86-64-v4'`` (AVX-512) are Linux on any
            processor of that kind. All of these give an object file, a shared library and LLVM
            source. ``'wasm32'`` gives a WebAssembly module and a JavaScript module that loads it.
            ``'c'`` gives C99 source for any machine with a C compiler, without vectors.
        linear_algebra: ``'lapack'`` calls BLAS and LAPACK for factorisations and complex products,
            as ``jit`` does, and the program links with them; ``'own'`` uses loops of weft's, which
            need no library and take longer for large matrices. ``'c'`` and ``'wasm32'`` have
            ``'own'`` alone, others ``'lapack'`` by default.

    Returns:
        A ``CLibrary`` with the paths of the files.

    Example:
        >>> import ctypes, tempfile
        >>> import numpy as np, weft, weft.numpy as jnp
        >>> from weft import export
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = export.to_c(weft.jit(lambda x: 2 * x), (jnp.ones(3),), folder, name="twice")
        ...     print(sorted(path.name for path in made.files))
        ['libtwice.so', 'twice.h', 'twice.ll', 'twice.o']
    """
    if not isinstance(fun_jit, JitFunction):
        raise TypeError(f"to_c takes the result of jit, got {fun_jit!r}; write to_c(jit(f), ...)")
    if target not in TARGETS:
        raise ValueError(f"targets are {', '.join(map(repr, TARGETS))}; got {target!r}")
    if linear_algebra not in (None, LAPACK, OWN):
        raise ValueError(f"linear_algebra is {LAPACK!r} or {OWN!r}, got {linear_algebra!r}")
    if linear_algebra == LAPACK and target in (PLAIN, WEB):
        raise ValueError(f"target {target!r} has no LAPACK: leave linear_algebra out")
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"to_c takes a tuple of arguments, got {args!r}; write ({args!r},)")
    traced = fun_jit.trace(*args, **(kwargs or {}))
    exported = exported_stage(traced, traced._said_of_inputs(fun_jit._options["in_shardings"]))
    name = _identifier(traced.fun_name, name)
    if exported._unknowns is not None:
        raise ValueError(f"{name} has symbolic dimensions; C code needs known shapes")
    if exported.nr_devices > 1:
        raise ValueError(f"{name} is for {exported.nr_devices} devices; C code runs on one device")
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    donated = tuple(traced._donated)
    lapack = linear_algebra != OWN and target not in (PLAIN, WEB)
    program = written_out(exported._program, lapack, lapack or target == PLAIN)
    try:
        left = None if lapack else first_of(program.jaxpr, needs_lapack)
        if left is not None:
            raise Unwritable(left, "LAPACK")
        written = _write(exported, program, donated, name, target, where)
    except (NeedsPython, Unwritable) as error:
        eqn, needed = error.eqn, getattr(error, "needed", "Python")
        if needed == "LAPACK":
            needed += f", which the target {target!r} does not have"
            if target not in (PLAIN, WEB):
                needed = "LAPACK: leave linear_algebra='own' out"
        raise ValueError(
            f"{name} can't be written for {target}: {eqn.primitive.name} at"
            f" {summarize(eqn.source_info)} needs {needed}"
        ) from None
    signature = _signature(fun_jit, traced)
    header = where / f"{name}.h"
    files = tuple([where / file for file in written["files"]])
    if target == WEB:
        return CLibrary(name, None, files, target, written["arena"])
    header.write_text(_header(name, target, exported, donated, signature, written))
    calls = tuple(written["calls"])
    return CLibrary(name, header, (header, *files), target, written["arena"], calls)


def _identifier(function: str, given: str | None) -> str:
    """The name of a function in C."""
    if given is None:
        given = re.sub(r"\W", "_", function).strip("_") or "f"
        given = given if given[0].isalpha() else f"f_{given}"
        return f"{given}_" if _is_taken(given) else given
    if not _NAME.fullmatch(given) or given in _WORDS or not given.isascii():
        raise ValueError(f"{given!r} can't be the name of a function in C; give another name=")
    if _is_taken(given):
        raise ValueError(
            f"{given!r} is the name of something else in C, in its library or in what weft writes;"
            f" give another name=, such as {given + '_'!r}"
        )
    return given


def _is_taken(name: str) -> bool:
    """Whether something in C has a name: a function of that name would be called in its place."""
    plain = name[:-1] if name.endswith(("f", "l")) else name
    return name in _WORDS or name in _LIBRARY or plain in _MATHEMATICS or is_own(name)


def _sizes(avals: Sequence[Any]) -> list[int]:
    return [prod(a.shape) * storage_dtype(a.dtype).itemsize for a in avals]


# --- files ----------------------------------------------------------------------------------------


def _write(
    exported: Exported,
    program: ClosedJaxpr,
    donated: Sequence[bool],
    name: str,
    target: str,
    folder: Path,
) -> dict[str, Any]:
    """Write all files but the header; what it has to say of them."""
    sizes = _sizes(exported.out_avals)
    if target == PLAIN:
        kinds = [*_kinds(exported.in_avals, donated), *_kinds(exported.out_avals, ())]
        made = source(program, donated, name, kinds, sizes)
        (folder / f"{name}.c").write_text(made.text)
        return {"files": [f"{name}.c"], "arena": made.arena, "calls": []}
    if target != NATIVE:
        return _written_elsewhere(exported, program, donated, name, target, folder)
    linked = link(program, donated, name, sizes)
    library = f"lib{name}.so" if linked.web is None else f"{name}.wasm"
    files = {
        f"{name}.o": linked.object,
        library: linked.library,
        f"{name}.ll": linked.text.encode(),
    }
    if linked.web is not None:
        del files[f"{name}.o"]
        avals = [*exported.in_avals, *exported.out_avals]
        files[f"{name}.js"] = page_code(name, linked.web, avals, len(exported.in_avals)).encode()
    for file, data in files.items():
        (folder / file).write_bytes(data)
    if linked.web is None:
        os.chmod(folder / library, 0o755)
    return {"files": [*files], "arena": linked.arena, "calls": linked.calls}


def _written_elsewhere(
    exported: Exported,
    program: ClosedJaxpr,
    donated: Sequence[bool],
    name: str,
    target: str,
    folder: Path,
) -> dict[str, Any]:
    """Have a process that plans for another machine write the files: plans ask what it is once."""
    asks = first_of(program.jaxpr, _is_called_back)
    if asks is not None:
        raise NeedsPython(asks)
    home = os.path.dirname(folder_of("weft") or "")
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
    given = {**os.environ, ELSEWHERE: target, "PYTHONPATH": path, "WEFT_PLATFORMS": "reference"}
    if target == WEB:
        given["WEFT_ROUTINES"] = _WEB_ROUTINES
    with tempfile.TemporaryDirectory() as held:
        (Path(held) / "program").write_bytes(_flat(exported, program).serialize())
        asked = {
            "name": name,
            "folder": str(folder.absolute()),
            "donated": list(donated),
            "knobs": {word: getattr(knobs.thread, word) for word in _KNOBS},
        }
        (Path(held) / "asked").write_text(json.dumps(asked))
        code = "import sys; from weft.export import c_library; c_library.write_here(sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", code, held], env=given, capture_output=True, text=True
        )
        answer = Path(held) / "answer"
        if done.returncode or not answer.exists():
            raise RuntimeError(f"{name} could not be compiled for {target}:\n{done.stderr}")
        found = json.loads(answer.read_text())
    if "python" in found:
        word = found["python"]
        raise NeedsPython(first_of(program.jaxpr, lambda eqn: eqn.primitive.name == word))
    if "refused" in found:
        raise ValueError(f"{name} can't be written for {target}: it {found['refused']}")
    return found


def _is_called_back(eqn: JaxprEqn) -> bool:
    """Whether an equation calls a function of the user's, or prints."""
    return "callback" in eqn.params or bool(eqn.effects and not [*jaxprs_in_params(eqn.params)])


def _flat(exported: Exported, program: ClosedJaxpr) -> Exported:
    """The same of a list of arguments, which needs no classes of the user's to be read."""
    ins, outs = (tuple(range(len(a))) for a in (exported.in_avals, exported.out_avals))
    trees = tree_structure((ins, {})), tree_structure(outs)
    checks = exported.disabled_safety_checks
    return Exported(exported.fun_name, program, *trees, exported.platforms, checks, None)


def write_here(held: str) -> None:
    """Write the files that another process asks for, by what it has left in a folder."""
    asked = json.loads((Path(held) / "asked").read_text())
    exported = deserialize((Path(held) / "program").read_bytes())
    rest = (asked["donated"], asked["name"], NATIVE, Path(asked["folder"]))
    try:
        with knobs.scope(**asked["knobs"]):
            found = _write(exported, exported._program, *rest)
    except NeedsPython as error:
        found = {"python": error.eqn.primitive.name}
    except Unavailable as error:
        found = {"refused": str(error)}
    (Path(held) / "answer").write_text(json.dumps(found))


# --- the header -----------------------------------------------------------------------------------


def _signature(fun_jit: JitFunction, traced: Any) -> list[tuple[str, str]]:
    """For each argument, a name in C, and how the function itself calls it."""
    args, kwargs = tree_unflatten(traced.in_tree, range(traced.in_tree.num_leaves))
    try:
        names = list(inspect.signature(fun_jit).parameters)
    except (TypeError, ValueError):
        names = []
    skipped = set(fun_jit._options.get("static_argnums") or ())
    dynamic = [n for i, n in enumerate(names) if i not in skipped]
    given = {}
    for i, value in enumerate(args):
        given[dynamic[i] if i < len(dynamic) else f"arg{i}"] = value
    given.update(kwargs)
    found: dict[int, str] = {}
    for word, value in given.items():
        for path, number in tree_flatten_with_path(value)[0]:
            found[number] = word + keystr(path)
    return _named([found.get(i, f"arg{i}") for i in range(traced.in_tree.num_leaves)])


def _named(paths: Sequence[str]) -> list[tuple[str, str]]:
    """A name in C for each path, all different."""
    made: list[tuple[str, str]] = []
    taken = {"arena", "run"}
    for path in paths:
        word = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_") or "x"
        word = word if word[0].isalpha() and word not in _WORDS else f"x_{word}"
        count, name = 1, word
        while name in taken:
            count += 1
            name = f"{word}_{count}"
        taken.add(name)
        made.append((name, path))
    return made


def _c_type(dtype: Any) -> str:
    physical = storage_dtype(dtype)
    found = _KINDS.get(physical.str[1:])
    if found is not None:
        return found
    # of narrow floats, the bits
    return f"{'' if is_signed(physical) else 'u'}int{8 * physical.itemsize}_t"


def _kinds(avals: Sequence[Any], written: Sequence[bool]) -> list[str]:
    """The types of elements, as parameters have them."""
    changed = [*written, *[True] * (len(avals) - len(written))]
    return [
        f"{'' if change else 'const '}{_c_type(aval.dtype)}"
        for aval, change in zip(avals, changed, strict=True)
    ]


def _comment(path: str, aval: Any) -> str:
    return f"/* {path}: {type_of(aval)} */"


def _header(
    name: str,
    target: str,
    exported: Exported,
    donated: Sequence[bool],
    arguments: Sequence[tuple[str, str]],
    written: dict[str, Any],
) -> str:
    paths = [
        keystr(path)
        for path, _ in tree_flatten_with_path(
            tree_unflatten(exported.out_tree, range(exported.out_tree.num_leaves))
        )[0]
    ]
    results = _named([f"out{path}" for path in paths])
    parts = []
    marks = [", donated" if gone else "" for gone in donated] + [""] * len(results)
    kinds = [*_kinds(exported.in_avals, donated), *_kinds(exported.out_avals, ())]
    avals = [*exported.in_avals, *exported.out_avals]
    for (word, path), aval, kind, mark in zip(
        [*arguments, *results], avals, kinds, marks, strict=True
    ):
        parts.append((f"{kind} *{word}", _comment(path + mark, aval)))
    lines = [
        f"    {part}{',' if i + 1 < len(parts) else ''} {said}"
        for i, (part, said) in enumerate(parts)
    ]
    listed = "\n" + "\n".join(lines) if lines else "void"
    inside = "void *arena" + ("," if lines else "") + ("\n" + "\n".join(lines) if lines else "")
    guard = f"{name.upper()}_H"
    return _TEXT.format(
        name=name,
        upper=name.upper(),
        guard=guard,
        target=target,
        arena=written["arena"],
        arguments=listed,
        inside=inside,
        parallel="" if target == PLAIN else _PARALLEL.format(name=name),
        build=_build(name, target, written["calls"]),
    )


def _build(name: str, target: str, libraries: Sequence[str]) -> str:
    if target == PLAIN:
        return f"cc -std=c99 -O2 main.c {name}.c -lm"
    if not libraries:
        return f"cc main.c {name}.o -lm, or cc main.c -L. -l{name} -lm"
    flags = (
        "-llapacke -lopenblas" if any(f.startswith("LAPACKE") for f in libraries) else "-lopenblas"
    )
    called = textwrap.fill(", ".join(libraries), 96, initial_indent="   ", subsequent_indent="   ")
    return (
        f"cc main.c {name}.o {flags} -lm, or cc main.c -L. -l{name} {flags} -lm\n\n"
        f"   It calls these functions of BLAS and LAPACK, with integers of 32 bits:\n\n{called}\n\n"
        "   OpenBLAS has them; some builds of it have LAPACKE inside. What\n"
        '   to_c(..., linear_algebra="own") writes needs none of them.'
    )


_PARALLEL = """
/* Loops run in the calling thread. To share them among threads, give {name}_set_parallel a function
   that calls the task on ranges that make up start to stop, each a chunk or less, in any order:

       static void share({name}_task task, void **buffers, int64_t start, int64_t stop,
                         int64_t chunk) {{
           #pragma omp parallel for
           for (int64_t low = start; low < stop; low += chunk)
               task(buffers, low, low + chunk < stop ? low + chunk : stop);
       }}
*/
typedef void (*{name}_task)(void **buffers, int64_t start, int64_t stop);
typedef void (*{name}_parallel)({name}_task task, void **buffers, int64_t start, int64_t stop,
                                int64_t chunk);
void {name}_set_parallel({name}_parallel run);
"""

_TEXT = """\
/* {name}, compiled by weft for {target}.

   Build: {build}

   Arrays are row-major. Results must not overlap arguments, except that the memory of a donated
   argument may also be given for the result that replaces it. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* The memory that a call works in. {name} has it, so that one thread at a time can call it;
   {name}_in takes it from the caller, aligned to 64 bytes. */
#define {upper}_ARENA_BYTES {arena}

void {name}({arguments});

void {name}_in({inside});
{parallel}
#ifdef __cplusplus
}}
#endif

#endif
"""
