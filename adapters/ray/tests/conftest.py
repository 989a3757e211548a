"""The program, a cluster of two nodes with one CPU each, and a plan."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

PROGRAM = Path(os.environ["PROGRAM"])
"""The absolute path of a built program."""
PACKAGE = Path(__file__).parents[1]
PRESET = PACKAGE.parents[1] / "framewright-sim/src/machine/presets/laptop-8.toml"
STORE = 80 << 20
"""Bytes of the object store of a node: about the least that Ray accepts."""

PLAN = """\
workloads = "socket-pairs"
machines = ["uniform:4", "machines/own.toml"]
seeds = { from = 1, to = 6 }

[options]
window = "WINDOW"
warm-up = "0ms"

[settings]
pcp.batch = ["auto", 8]
"""


@pytest.fixture(scope="session")
def cluster():
    """A head without CPUs, to which drivers connect; tests add nodes."""
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": True, "dashboard_port": 0}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def nodes(cluster):
    """Two nodes with a CPU each."""
    two = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
    cluster.wait_for_nodes()
    yield two
    for node in two:
        if node in cluster.worker_nodes:
            cluster.remove_node(node)


class Place:
    """A folder with a plan and a machine file."""

    def __init__(self, folder: Path, address: str = "there is no cluster"):
        self.folder = folder
        self.env = os.environ | {"RAY_ADDRESS": address, "PYTHONPATH": str(PACKAGE), "RAY_USAGE_STATS_ENABLED": "0"}
        (folder / "machines").mkdir()
        (folder / "machines/own.toml").write_text(PRESET.read_text().replace('"laptop-8"', '"own"', 1))
        self.plan()

    def plan(self, window: str = "1ms", old: str = "", new: str = ""):
        """Writes the plan, with a text replaced."""
        text = PLAN.replace("WINDOW", window)
        (self.folder / "plan.toml").write_text(text.replace(old, new) if old else text)

    def command(self, *more: str) -> list:
        return [sys.executable, "-m", "framewright_ray", "plan.toml", "-o", "out.csv", "--program", PROGRAM, *more]

    def start(self, *more: str) -> subprocess.Popen:
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command(*more), cwd=self.folder, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def run(self, *more: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*more), cwd=self.folder, env=self.env, capture_output=True, text=True)

    def expected(self) -> bytes:
        """The table of `framewright sweep`."""
        command = [PROGRAM, "sweep", "plan.toml", "-o", "expected.csv", "--jobs", "1"]
        subprocess.run(command, cwd=self.folder, capture_output=True)
        return self.bytes("expected.csv")

    def bytes(self, name: str = "out.csv") -> bytes:
        return (self.folder / name).read_bytes()

    def shards(self) -> list[Path]:
        """The parts that exist."""
        return list(self.folder.glob("out.csv.parts/shard-*.csv"))

    def names(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir() if file.name != "expected.csv")


NAMES = ["machines", "out.csv", "plan.toml"]


@pytest.fixture
def place(cluster, tmp_path):
    """A folder whose commands use the cluster."""
    return Place(tmp_path, cluster.address)


@pytest.fixture
def apart(tmp_path):
    """A folder whose commands have no cluster."""
    return Place(tmp_path)
