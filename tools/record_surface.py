"""Record what JAX answers to the programs of ``tests/surface`` (needs the ``oracle`` extra).

``python tools/record_surface.py [group ...]`` writes ``tests/surface/GROUP_answers.json``.
``--missing`` asks only what the record lacks; ``--weft`` asks weft instead and prints where it
differs from the record.
"""

import json
import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = os.environ["WEFT_NUM_CPU_DEVICES"] = "8"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main(args: list[str]) -> None:
    from tests.surface import asked

    wanted = [name for name in args if not name.startswith("-")] or asked.groups()
    for group in wanted:
        library = asked.Library("weft" if "--weft" in args else "jax", group)
        path = ROOT / f"tests/surface/{group}_answers.json"
        known = asked.answers(group) if "--missing" in args and path.exists() else {}
        found = {
            program: known[program] if program in known else library.ask(program)
            for program in asked.programs(group)
        }
        if "--weft" not in args:
            lines = [f" {json.dumps(p)}:\n  {json.dumps(a)}" for p, a in found.items()]
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
            refused = sum(str(answer).startswith("raises") for answer in found.values())
            print(f"{path.relative_to(ROOT)}: {len(found)} answers, {refused} of them refusals")
            continue
        expected = asked.answers(group)
        for program, answer in found.items():
            if not asked.same(answer, expected[program]):
                print(f"{program}\n    {library.name}: {answer}\n    jax: {expected[program]}")


if __name__ == "__main__":
    main(sys.argv[1:])
