"""The driver: starts the shards that have no part yet as Ray tasks, keeps their parts, and joins them.

`OUT.parts/` is the folder of `framewright sweep`, with its lock. It has a file for each finished shard, put there by a
rename, and the file `ray.json`, which says what the parts belong to.
"""

import contextlib
import fcntl
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ray
from ray import cloudpickle

from . import shard
from .ship import BadInput, digest, machine_files, ship

TRIES = 5
"""How often Ray repeats a shard whose program, worker or node was killed."""
MOST_SHARDS = 10_000
"""More names of parts would not fit into the arguments of `framewright sweep merge`."""
SHARDS_PER_CPU = 4
"""Default. With fewer, CPUs wait for the last shard; with more, the start of the program costs more."""
SHOWN = 10
"""Failed runs whose reasons are printed."""


@dataclass(frozen=True)
class Sweep:
    """A plan and its output."""

    plan: Path
    out: Path
    """An absolute path."""
    program: Path
    sample: int | None = None
    shards: int | None = None
    """The number of shards; by default 4 for each CPU of the cluster, or that of the parts that exist."""

    @property
    def parts(self) -> Path:
        return Path(f"{self.out}.parts")

    @property
    def more(self) -> list[str]:
        return [] if self.sample is None else ["--sample", str(self.sample)]

    def call(self, *args: str | Path) -> subprocess.CompletedProcess:
        """Runs the program on this computer."""
        try:
            return subprocess.run([self.program, "sweep", *args, *self.more], capture_output=True, text=True)
        except OSError as error:
            raise BadInput(f"cannot run '{self.program}': {error.strerror}: name the program with --program") from None

    def run(self, address: str | None) -> int:
        """Runs the sweep on the cluster at `address` and returns the exit code: 0, or 1 if runs failed.

        Raises `BadInput` if there is no table, with the reason.
        """
        runs = self.check()
        if self.out.exists():
            return self.finished()
        machines = machine_files(self.plan)
        key = {"plan": digest([self.plan, *machines]), "program": digest([self.program]), "sample": self.sample}
        with tempfile.TemporaryDirectory(prefix="framewright-") as scratch:
            folder = ship(self.program, self.plan, machines, Path(scratch))
            with self.locked():
                of = self.recorded(key, runs)
                with cluster(address, folder):
                    if of is None:
                        of = min(self.shards or SHARDS_PER_CPU * max(cpus(), 1), runs, MOST_SHARDS)
                        put(self.parts / "ray.json", json.dumps(key | {"shards": of}).encode())
                    has_reasons = self.measure(of)
            ended = self.merge(folder, of)
        # The program does not know the reasons of failed runs in tables, and the tasks have told them.
        return report(ended, quiet=has_reasons)

    def check(self) -> int:
        """The number of runs, if the program accepts plan and output."""
        ended = self.call(self.plan, "-o", self.out, "--dry-run")
        if ended.returncode != 0:
            raise BadInput(ended.stderr.removeprefix("error: ").strip())
        return int(ended.stdout.split()[0])

    def finished(self) -> int:
        """The exit code if the output exists and has all runs."""
        with tempfile.TemporaryDirectory(prefix="framewright-", dir=self.out.parent) as scratch:
            ended = self.call("merge", self.plan, self.out, "-o", Path(scratch, "table.csv"))
        if ended.returncode > 1:
            raise BadInput(f"'{self.out}' exists: {ended.stderr.removeprefix('error: ').strip()}\n"
                           "Choose another output, or let `framewright sweep` extend the table.")
        print(f"note: '{self.out}' already has the runs of the plan", file=sys.stderr)
        return report(ended)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Creates the folder of the parts, and locks it as `framewright sweep` does. Without parts, it is removed."""
        try:
            self.parts.mkdir(exist_ok=True)
            lock = (self.parts / "lock").open("w")
        except OSError as error:
            raise BadInput(f"cannot write into '{self.parts}': {error.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(f"another sweep works on '{self.out}': wait for it, or choose another output") from None
            try:
                yield
            finally:
                (self.parts / "lock").unlink()
                with contextlib.suppress(OSError):
                    self.parts.rmdir()

    def recorded(self, key: dict, runs: int) -> int | None:
        """The number of shards to which the parts belong; `None` if there are none."""
        file = self.parts / "ray.json"
        if not file.exists():
            return None
        found = json.loads(file.read_text())
        of = found.pop("shards")
        wrong = [f"another {name}" for name in key if found.get(name) != key[name]]
        if self.shards is not None and min(self.shards, runs) != of:
            wrong.append(f"{of} shards")
        if wrong:
            raise BadInput(f"'{self.parts}' has parts of {' and '.join(wrong)}: repeat the command that made them, "
                           "remove the folder, or choose another output")
        return of

    def part(self, number: int, of: int) -> Path:
        return self.parts / f"shard-{number:05}-of-{of:05}.csv"

    def measure(self, of: int) -> bool:
        """Runs the shards that have no part. Returns whether it has printed reasons of failed runs."""
        task = ray.remote(shard.run).options(num_cpus=1, max_retries=TRIES, retry_exceptions=[ChildProcessError])
        missing = [number for number in range(1, of + 1) if not self.part(number, of).exists()]
        waiting = {task.remote(f"{number}/{of}", self.more): number for number in missing}
        if len(missing) < of:
            print(f"continues: {of - len(missing)} of {of} shards have a part", file=sys.stderr, flush=True)
        told, shown, lost = time.monotonic(), 0, []
        while waiting:
            refs = list(waiting)
            # Some at a time: each call looks at all that are waiting.
            ready, _ = ray.wait(refs, num_returns=min(100, len(refs)), timeout=1)
            for ref in ready:
                number = waiting.pop(ref)
                try:
                    table, failed = ray.get(ref)
                except ray.exceptions.RayError as error:
                    lost.append(f"shard {number}/{of}: {reason(error)}")
                    continue
                put(self.part(number, of), zlib.decompress(table))
                for line in failed[: SHOWN - shown]:
                    print(line, file=sys.stderr)
                    shown += 1
            # A name that the loop keeps would keep the last table in the object store.
            ref = ready = None
            if time.monotonic() - told > 10 or not waiting:
                told = time.monotonic()
                print(f"{of - len(waiting) - len(lost)} of {of} shards; {cpus()} CPUs", file=sys.stderr, flush=True)
        if lost:
            raise BadInput(f"{len(lost)} of {of} shards have no table; the same command repeats them. The first: {lost[0]}")
        return shown > 0

    def merge(self, folder: Path, of: int) -> subprocess.CompletedProcess:
        """Joins the parts to the table, and removes them.

        Program and plan are those in `folder`: a job has its own in a folder that Ray removes at the end.
        """
        parts = [self.part(number, of) for number in range(1, of + 1)]
        command = [folder / shard.PROGRAM, "sweep", "merge", folder / shard.PLAN, *parts, "-o", self.out, *self.more]
        ended = subprocess.run(command, cwd=folder / shard.MACHINES, capture_output=True, text=True)
        if ended.returncode > 1:
            raise BadInput(ended.stderr.removeprefix("error: ").strip())
        return ended


@contextlib.contextmanager
def cluster(address: str | None, folder: Path) -> Iterator[None]:
    """Connects to the cluster, and copies `folder` to each node that runs a task."""
    check_address(address or os.environ.get("RAY_ADDRESS", ""))
    # The nodes need not have this package.
    cloudpickle.register_pickle_by_value(shard)
    try:
        # Ray warns of the size of the program, which is below the limit.
        ray.init(address=address, runtime_env={"py_modules": [str(folder)]}, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise BadInput(f"cannot connect to a Ray cluster: {reason(error)}") from None
    # Ray's messages about nodes and tasks would go to standard output, the last ones during the shutdown.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            ray.shutdown()


def check_address(address: str) -> None:
    """Raises `BadInput` if nothing listens at HOST:PORT. Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in address:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot connect to a Ray cluster at {address}: {error}") from None


def cpus() -> int:
    """The CPUs that the cluster has now."""
    return int(ray.cluster_resources().get("CPU", 0))


def put(path: Path, contents: bytes) -> None:
    """Writes a file, completely or not at all, also if the computer stops."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def reason(error: Exception) -> str:
    """The message of an error, without the stack of the worker."""
    cause = getattr(error, "cause", None) or error
    return str(cause).strip()


def report(ended: subprocess.CompletedProcess, quiet: bool = False) -> int:
    """Prints what the program has printed, and returns its exit code."""
    sys.stdout.write(ended.stdout)
    if not quiet:
        sys.stderr.write(ended.stderr)
    return ended.returncode
