"""Run the checks of the array API standard on a namespace and print passed/total.

``python -m tests.array_api`` checks weft.numpy with 32 and with 64 bits; ``--library numpy`` checks
another namespace, ``--only TEXT`` the checks with a text in their names.
"""

import argparse

from tests.array_api.conformance import excuse, report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.array_api", description=__doc__)
    parser.add_argument("--library", default="weft.numpy", help="the namespace to check")
    parser.add_argument("--only", default="", metavar="TEXT", help="checks with this in the name")
    options = parser.parse_args()
    passed = total = unexpected = 0
    for width, (count, failed) in report(options.library, options.only).items():
        print(f"{width} bits: {count - len(failed)}/{count} passed")
        for name, error in failed.items():
            reason = excuse(name) if options.library == "weft.numpy" else None
            unexpected += reason is None
            print(f"  {name}: {reason or error.splitlines()[-1]}")
        passed, total = passed + count - len(failed), total + count
    print(f"{passed}/{total} passed ({100 * passed / max(total, 1):.2f} %)")
    return int(unexpected > 0)


if __name__ == "__main__":
    raise SystemExit(main())
