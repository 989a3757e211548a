"""Bad input ends with a message and exit code 2, before anything runs, and leaves no file."""

import json

import pytest
from conftest import NAMES, PROGRAM
from framewright_ray import ship


def refused(place, *more: str, hint: str):
    names = place.names()
    ended = place.run(*more)
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert hint in ended.stderr and "Traceback" not in ended.stderr, ended.stderr
    assert place.names() == names


def test_bad_arguments(apart):
    refused(apart, "--shards", "0", hint="invalid positive value: '0'")
    refused(apart, "--shards", "10001", hint="--shards 10001: at most 10000")
    refused(apart, "--program", "none", hint="No such file or directory: name the program with --program")
    refused(apart, "-o", "out.json", hint="its name ends with .csv or .parquet")
    refused(apart, "-o", "nowhere/out.csv", hint="nowhere")
    refused(apart, "--address", "127.0.0.1:1", hint="cannot connect to a Ray cluster at 127.0.0.1:1: ")


def test_a_bad_plan(apart):
    apart.plan(old="socket-pairs", new="socket-pear")
    refused(apart, hint="plan.toml:1: workloads = socket-pear")


def test_a_machine_file_elsewhere(apart):
    elsewhere = apart.folder / "machines/own.toml"
    apart.plan(old="machines/own.toml", new=str(elsewhere))
    refused(apart, hint=f"machines = {elsewhere}: a machine file must be below the current folder")


def test_a_table_of_another_plan(apart):
    apart.expected()
    (apart.folder / "expected.csv").rename(apart.folder / "out.csv")
    apart.plan(old="to = 6", new="to = 5")
    refused(apart, hint="out.csv' exists: ")
    assert apart.names() == NAMES


def test_parts_of_another_plan(apart):
    parts = apart.folder / "out.csv.parts"
    parts.mkdir()
    plan, machine = apart.folder / "plan.toml", apart.folder / "machines/own.toml"
    key = {"plan": ship.digest([plan, machine]), "program": ship.digest([PROGRAM]), "sample": None, "shards": 8}
    for name, value in [("plan", ""), ("program", ""), ("sample", 3)]:
        (parts / "ray.json").write_text(json.dumps(key | {name: value}))
        refused(apart, hint=f"out.csv.parts' has parts of another {name}: repeat the command")
    (parts / "ray.json").write_text(json.dumps(key))
    refused(apart, "--shards", "7", hint="out.csv.parts' has parts of 8 shards")
    assert [file.name for file in parts.iterdir()] == ["ray.json"]


def test_what_is_shipped_is_stripped_and_below_the_limit(tmp_path, monkeypatch):
    plan = tmp_path / "plan.toml"
    plan.write_text("")
    folder = ship.ship(PROGRAM, plan, [], tmp_path / "1")
    program = folder / "framewright"
    assert program.stat().st_size < 30 << 20 and program.stat().st_mode & 0o100
    monkeypatch.setattr(ship, "MOST_BYTES", program.stat().st_size)
    with pytest.raises(ship.BadInput, match="--release"):
        ship.ship(PROGRAM, plan, [], tmp_path / "2")

