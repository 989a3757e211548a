"""Sweeps on a cluster: the table is that of `framewright sweep`, whatever is killed."""

import os
import signal
import subprocess
import sys
import time

import psutil
from conftest import NAMES, PROGRAM


def until(driver: subprocess.Popen, condition):
    """The first value of `condition` that is true, while the driver runs."""
    while driver.poll() is None:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(driver.communicate())


def raylet(node) -> psutil.Process:
    """The process that is the parent of the workers of a node."""
    return psutil.Process(node.all_processes["raylet"][0].process.pid)


def stopped_program(driver: subprocess.Popen, node) -> psutil.Process:
    """A program that runs a shard on a node, stopped before its end."""
    def programs():
        for process in raylet(node).children(recursive=True):
            try:
                if process.name() != "framewright":
                    continue
                process.suspend()
                if process.status() == psutil.STATUS_STOPPED:
                    return process
            except psutil.NoSuchProcess:
                continue
        return None

    return until(driver, programs)


def sweep_with_two_shards(place) -> subprocess.Popen:
    """A sweep of twelve shards, of which at least two are done."""
    place.plan(window="500ms")
    driver = place.start("--shards", "12")
    until(driver, lambda: len(place.shards()) >= 2)
    return driver


def wait_until_gone(driver: subprocess.Popen, program: psutil.Process):
    """A program does not survive its worker."""
    until(driver, lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


def test_a_killed_node_and_a_killed_program_do_not_change_the_table(cluster, nodes, place):
    driver = sweep_with_two_shards(place)

    killed = stopped_program(driver, nodes[1])
    killed.kill()

    left_behind = stopped_program(driver, nodes[0])
    cluster.remove_node(nodes[0], allow_graceful=False)
    wait_until_gone(driver, left_behind)
    ends_with_all_runs(driver, place)


def test_a_killed_worker_does_not_change_the_table(nodes, place):
    driver = sweep_with_two_shards(place)

    program = stopped_program(driver, nodes[1])
    worker = program.parent()
    assert worker.parent() == raylet(nodes[1]), worker
    worker.kill()
    wait_until_gone(driver, program)
    assert raylet(nodes[1]).is_running()
    ends_with_all_runs(driver, place)


def test_a_killed_raylet_does_not_change_the_table(nodes, place):
    driver = sweep_with_two_shards(place)

    # Its worker and its program are not killed: they end by themselves.
    program = stopped_program(driver, nodes[0])
    killed = nodes[0].all_processes["raylet"][0].process
    killed.kill()
    killed.wait()
    wait_until_gone(driver, program)
    ends_with_all_runs(driver, place)


def ends_with_all_runs(driver: subprocess.Popen, place):
    """The sweep, which is not over yet, ends with the table of `framewright sweep`."""
    assert len(place.shards()) < 11, "the sweep was over before the last kill"
    out, err = driver.communicate(timeout=240)
    assert (driver.returncode, out) == (0, "24 runs, 0 failed\n"), err
    assert place.bytes() == place.expected()
    assert place.names() == NAMES
    assert "12 of 12 shards" in err


def test_a_killed_driver_continues_with_the_parts(nodes, place):
    place.plan(window="200ms")
    driver = place.start("--shards", "12")
    until(driver, lambda: len(place.shards()) >= 3)
    driver.kill()
    driver.communicate()
    assert not (place.folder / "out.csv").exists()
    parts = len(place.shards())

    other = place.run("--shards", "5")
    assert other.returncode == 2 and "parts of 12 shards" in other.stderr, other.stderr

    ended = place.run()
    assert ended.returncode == 0, ended.stderr
    assert f"continues: {parts} of 12 shards have a part" in ended.stderr
    assert place.bytes() == place.expected()
    assert place.names() == NAMES

    again = place.run()
    assert (again.returncode, again.stdout) == (0, "24 runs, 0 failed\n"), again.stderr
    assert "already has the runs" in again.stderr
    assert place.names() == NAMES


def test_runs_that_fail_are_named_and_the_rest_is_kept(nodes, place):
    # No machine can have both of the second settings.
    place.plan(old='pcp.batch = ["auto", 8]', new='hardening = ["checked", "tracked"]\nowner_lock = "biased"')
    ended = place.run()
    assert (ended.returncode, ended.stdout) == (1, "24 runs, 12 failed\n"), ended.stderr
    reasons = [line for line in ended.stderr.splitlines() if line.startswith("run failed: framewright run socket-pairs")]
    assert len(reasons) == 10
    assert all("--set=hardening=tracked" in line and "when the table was written" not in line for line in reasons)
    assert place.bytes() == place.expected()
    assert place.names() == NAMES


def test_a_sample_is_that_of_the_program(nodes, place):
    ended = place.run("--sample", "5", "--shards", "9")
    assert (ended.returncode, ended.stdout) == (0, "5 runs, 0 failed\n"), ended.stderr
    assert "5 of 5 shards" in ended.stderr
    command = [PROGRAM, "sweep", "plan.toml", "-o", "expected.csv", "--sample", "5"]
    subprocess.run(command, cwd=place.folder, check=True, capture_output=True)
    assert place.bytes() == place.bytes("expected.csv")


def test_a_ray_job_runs_a_sweep(cluster, nodes, place):
    job = place.folder / "job"
    expected = place.expected()
    job.mkdir()
    for name in ["plan.toml", "machines"]:
        (place.folder / name).rename(job / name)
    subprocess.run(["strip", "-o", job / "framewright", PROGRAM], check=True)
    ray = os.path.join(os.path.dirname(sys.executable), "ray")
    command = [ray, "job", "submit", "--address", f"http://{cluster.head_node.webui_url}", "--working-dir", job, "--",
               sys.executable, "-m", "framewright_ray", "plan.toml", "-o", place.folder / "out.csv",
               "--program", "./framewright"]
    ended = subprocess.run(command, env=place.env, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "24 runs, 0 failed" in ended.stdout
    assert place.bytes() == expected
    assert place.names() == ["job", "out.csv"]
