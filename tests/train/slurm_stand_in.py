"""Slurm's commands for one machine: they check what they are given, and run it.

The first argument is ``sbatch``, ``squeue``, ``scancel`` or ``srun``; the state is in the folder
that ``SLURM_STAND_IN`` names. While that folder has a file ``hold``, jobs wait.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys

OPTIONS = {
    "job-name": r"[\w.+-]+",
    "output": r".+",
    "open-mode": r"append|truncate",
    "ntasks": r"[1-9]\d*",
    "cpus-per-task": r"[1-9]\d*",
    "mem": r"[1-9]\d*[KMGT]?",
    "time": r"(\d+-)?\d+(:\d\d){0,2}",
    "partition": r"short|long",
    "gres": r"gpu:\d+",
    "comment": r".*",
    "exclusive": r"",
}
HELD = 'while [ -e "$1/hold" ]; do sleep 0.02; done; bash "$2"; echo $? > "$1/$3.done"'


def end(message):
    print(f"{sys.argv[1]}: error: {message}", file=sys.stderr)
    sys.exit(1)


def options_of(script):
    """The options in a script's comments, which stand before its first command."""
    lines = script.read_text().split("\n")
    if not lines[0].startswith("#!"):
        end("This does not look like a batch script")
    found = {}
    for line in lines[1:]:
        if not line.startswith("#SBATCH "):
            break
        name, _, value = line.removeprefix("#SBATCH --").partition("=")
        value = re.sub(r'^"(.*)"$', r"\1", value)
        if name not in OPTIONS or not re.fullmatch(OPTIONS[name], value):
            end(f"invalid option {line!r}")
        found[name] = value
    if any(line.startswith("#SBATCH") for line in lines[1 + len(found) :]):
        end("options after the first command")
    return found


def sbatch(folder, arguments):
    if arguments[:1] != ["--parsable"] or len(arguments) != 2:
        end(f"unexpected arguments {arguments}")
    script = pathlib.Path(arguments[1])
    options = options_of(script)
    job = 1 + len(list(folder.glob("*.script")))
    (folder / f"{job}.script").write_text(script.read_text())
    added = {"SLURM_JOB_ID": str(job), "SLURM_NTASKS": options.get("ntasks", "1")}
    with open(options["output"].replace("%%", "%"), "ab") as log:
        process = subprocess.Popen(
            ["bash", "-c", HELD, "job", str(folder), str(folder / f"{job}.script"), str(job)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | added,
            start_new_session=True,
        )
    (folder / f"{job}.pid").write_text(str(process.pid))
    print(f"{job};cluster" if job % 2 else job)
    process.returncode = 0  # it goes on by itself


def squeue(folder, arguments):
    if arguments != ["--me", "--noheader", "--format=%i %T"]:
        end(f"unexpected arguments {arguments}")
    if (folder / "down").exists():
        end("Unable to contact slurm controller")
    for path in sorted(folder.glob("*.pid")):
        if (folder / f"{path.stem}.done").exists():
            state = "COMPLETED" if int(path.stem) % 2 else ""
        else:
            state = "PENDING" if (folder / "hold").exists() else "RUNNING"
        if state:
            print(path.stem, state)


def scancel(folder, arguments):
    (job,) = arguments
    os.killpg(int((folder / f"{job}.pid").read_text()), signal.SIGKILL)
    (folder / f"{job}.done").write_text("cancelled")


def srun(folder, arguments):
    if arguments[0] != "--kill-on-bad-exit=1":
        end(f"unexpected arguments {arguments}")
    count = int(os.environ["SLURM_NTASKS"])
    started = [
        subprocess.Popen(arguments[1:], env=os.environ | {"SLURM_PROCID": str(rank)})
        for rank in range(count)
    ]
    while True:
        for process in started:
            if process.poll():
                for other in started:
                    other.kill()
                sys.exit(1)
        if all(process.poll() == 0 for process in started):
            return
        try:
            started[0].wait(0.02)
            started[-1].wait(0.02)
        except subprocess.TimeoutExpired:
            pass


def main():
    folder = pathlib.Path(os.environ["SLURM_STAND_IN"])
    command = {"sbatch": sbatch, "squeue": squeue, "scancel": scancel, "srun": srun}
    command[sys.argv[1]](folder, sys.argv[2:])


if __name__ == "__main__":
    main()
