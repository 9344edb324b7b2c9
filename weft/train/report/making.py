"""The report of a folder as a file, and the command line."""

import argparse
import os
import pathlib
import sys

from weft.train.report import page, reading, server


def make_report(
    folder: str | os.PathLike[str], output: str | os.PathLike[str] | None = None
) -> pathlib.Path:
    """Write the report of the runs below a folder: one file that loads nothing else.

    Args:
        folder: an experiment of ``weft.train.launch``, or any folder below which there are files
            ``metrics.jsonl``.
        output: where the page goes; ``report.html`` in the folder by default.

    Returns:
        The page's path.

    Example:
        >>> import tempfile
        >>> make_report(tempfile.mkdtemp()).name
        'report.html'
    """
    text = page.render(reading.Reader(folder).read())
    path = pathlib.Path(output) if output is not None else pathlib.Path(folder) / "report.html"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m weft.train.report",
        description="Show the runs below a folder as one HTML page.",
    )
    parser.add_argument("folder", help="an experiment, or a folder of runs with metrics.jsonl")
    parser.add_argument("-o", "--output", help="the page; DIR/report.html by default")
    parser.add_argument("--serve", action="store_true", help="serve the page, up to date")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at")
    parser.add_argument("--port", type=int, default=8008, help="port to listen at; 0 for any")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        help="a further host name that requests may use",
    )
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.folder):
        parser.error(f"{options.folder} is not a folder")
    if not options.serve:
        try:
            print(make_report(options.folder, options.output))
        except OSError as error:
            parser.error(f"the page cannot be written: {error}")
        return 0
    try:
        made = server.ReportServer(
            options.folder, options.host, options.port, tuple(options.allow_host)
        )
    except (OSError, OverflowError) as error:
        parser.error(f"cannot listen at {options.host}, port {options.port}: {error}")
    if not server.is_loopback(options.host):
        print("anyone who can reach this machine can read the report", file=sys.stderr)
    print(made.address, flush=True)
    with made:
        try:
            made.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)
    return 0
