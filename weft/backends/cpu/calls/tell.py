"""What the knobs ``debug`` and ``dump`` ask for: stages of a compilation, printed or written."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

from weft.backends.cpu.assembly import Assembly
from weft.backends.cpu.assembly_text import Stage, stages
from weft.backends.cpu.story import Story
from weft.base import knobs
from weft.compiler.watch import Watch


def tell(watch: Watch, program: Assembly) -> None:
    """Print and write what this thread's knobs ask for."""
    level, folder = knobs.thread.debug, knobs.thread.dump
    if not level and not folder:
        return
    story = Story(watch, program)
    if level:
        print(_ladder(story, watch, program, level), file=sys.stderr, flush=True)
    if folder:
        _write(os.path.expanduser(folder), story, stages(program, watch))


def _ladder(story: Story, watch: Watch, program: Assembly, level: int) -> str:
    """All that is to be seen from a level on: each shows what those below it do, and more."""
    lines = [f"weft: {story.summary() if level == 1 else story}"]
    if level > 2:
        for stage in stages(program, watch):
            if stage.level <= level:
                lines.append(f"--- {story.name}: {stage.name}\n{stage.text}")
    return "\n".join(lines)


def _write(folder: str, story: Story, found: Iterable[Stage]) -> None:
    """One numbered folder for a compilation, with one numbered file for each stage."""
    room = _new_room(folder, re.sub(r"\W+", "_", story.name) or "program")
    told = [Stage(2, "story", str(story)), *found]
    for number, stage in enumerate(told):
        name = re.sub(r"[^\w.-]+", "_", stage.name)
        ending = "ll" if name.startswith("llvm") else "txt"
        path = os.path.join(room, f"{number:03}-{name}.{ending}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(stage.text + "\n")


def _new_room(folder: str, name: str) -> str:
    """A folder that no other compilation, of this process or another, writes to."""
    os.makedirs(folder, exist_ok=True)
    number = len(os.listdir(folder))
    while True:
        room = os.path.join(folder, f"{number:04}-{name}")
        try:
            os.mkdir(room)
        except FileExistsError:
            number += 1
        else:
            return room
