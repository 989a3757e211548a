"""The files that Ray copies to each node: the program, the plan and the machine files that the plan names."""

import hashlib
import shutil
import subprocess
import tomllib
from pathlib import Path

from .shard import MACHINES, PLAN, PROGRAM, SHIPPED

MOST_BYTES = 500 << 20
"""The limit of Ray for a package of files."""


class BadInput(Exception):
    """Input that cannot be used, as a message for the user."""


def machine_files(plan: Path) -> list[Path]:
    """The files that a valid plan names as machines.

    Raises `BadInput` if one is not below the current folder: the program could not find it by the same name on a node.
    """
    table = tomllib.loads(plan.read_text())
    files = []
    for block in [table, *table.get("runs", [])]:
        machines = block.get("machines", [])
        for name in [machines] if isinstance(machines, str) else machines:
            file = Path(name)
            if not file.is_file():
                continue
            if file.is_absolute() or ".." in file.parts:
                raise BadInput(f"'{plan}': machines = {name}: a machine file must be below the current folder, so that "
                               "it has the same name on each node: copy it, and write its relative path")
            files.append(file)
    return files


def digest(files: list[Path]) -> str:
    """A hash of the contents of files."""
    both = hashlib.sha256()
    for file in files:
        both.update(hashlib.sha256(file.read_bytes()).digest())
    return both.hexdigest()


def ship(program: Path, plan: Path, machines: list[Path], into: Path) -> Path:
    """Makes the folder to copy, below `into`, and returns it.

    Raises `BadInput` if the files are larger than Ray accepts.
    """
    folder = into / SHIPPED
    (folder / MACHINES).mkdir(parents=True)
    (folder / "__init__.py").touch()
    shutil.copy(plan, folder / PLAN)
    for file in machines:
        copy = folder / MACHINES / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    shutil.copy(program, folder / PROGRAM)
    # Debug information makes up most of a debug build. Without `strip`, or if the program is a script, it stays.
    if shutil.which("strip"):
        subprocess.run(["strip", folder / PROGRAM], stderr=subprocess.DEVNULL, check=False)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size >= MOST_BYTES:
        raise BadInput(f"program, plan and machine files have {size >> 20} MiB, and Ray copies less than "
                       f"{MOST_BYTES >> 20} MiB: build the program with --release, and install `strip`")
    return folder
