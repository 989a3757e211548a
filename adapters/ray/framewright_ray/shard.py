"""The work of a task: one shard of a sweep, on any node of the cluster."""

import ctypes
import importlib
import signal
import subprocess
import tempfile
import zlib
from pathlib import Path

SHIPPED = "framewright_shipped"
"""The folder that Ray copies to each node, as a Python package: `ship` fills it."""

PROGRAM = "framewright"
PLAN = "plan.toml"
MACHINES = "machines"
"""Names in the folder: the program, the plan, and the current folder of the program, with the plan's machine files."""

PR_SET_PDEATHSIG = 1
"""The number of an option of prctl, from linux/prctl.h."""


def run(shard: str, more: list[str]) -> tuple[bytes, list[str]]:
    """Runs a shard, as in "2/4", and returns its table, compressed, and the program's lines about failed runs.

    `more` are further options of `framewright sweep`.

    Raises `ChildProcessError` if a signal ended the program, which another try may repair, and `RuntimeError` if the
    program wrote no table.
    """
    shipped = Path(importlib.import_module(SHIPPED).__file__).parent
    prctl = ctypes.CDLL(None).prctl
    with tempfile.TemporaryDirectory(prefix="framewright-") as folder:
        part = Path(folder, "part.csv")
        command = [shipped / PROGRAM, "sweep", shipped / PLAN, "-o", part, "--shard", shard, "--jobs", "1", *more]
        ended = subprocess.run(
            command,
            cwd=shipped / MACHINES,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            # A task that Ray kills leaves no program behind, which would compete with the next try.
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        if ended.returncode < 0:
            raise ChildProcessError(f"shard {shard}: {signal.Signals(-ended.returncode).name} ended the program")
        # 1: the table is complete, and some runs failed.
        if ended.returncode > 1:
            raise RuntimeError(f"shard {shard}: {ended.stderr.strip()}")
        failed = [line for line in ended.stderr.splitlines() if line.startswith("run failed:")]
        # All tables pass through the driver, and are in the object stores until then.
        return zlib.compress(part.read_bytes(), 1), failed
