"""Compares a trace of --perfetto with the figures of its run. Arguments: the kind of run, the trace, the JSON report.

The queries use the tables of Perfetto's trace processor. If TRACE_PROCESSOR names that program, it answers them. Otherwise
the packets are decoded with Perfetto's schema, and SQLite answers.
"""

import json
import os
import sqlite3
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def fail(what):
    sys.exit(f"error: {sys.argv[2]}: {what}")


def decoded(path):
    """The trace in tables of SQLite. Checks that times of a track do not decrease, and that all slices end."""
    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    tables = sqlite3.connect(":memory:")
    tables.executescript(
        "create table track (id, name); create table slice (id, ts, dur, track_id, name);"
        "create table counter (ts, track_id, value); create table flow (slice_out, slice_in);"
    )
    insert = lambda table, *row: tables.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)
    open_slices, latest, out, slices = {}, {}, {}, 0
    event_of = schema.TrackEvent
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            is_thread = track.HasField("thread") or track.HasField("process")
            insert("track", track.uuid, None if is_thread else track.name)
            latest[track.uuid] = 0
            continue
        event, now = packet.track_event, packet.timestamp
        track = event.track_uuid
        if track not in latest:
            fail(f"an event on track {track}, which is not described")
        if now < latest[track]:
            fail(f"track {track}: {now} after {latest[track]}")
        latest[track] = now
        if event.type == event_of.TYPE_COUNTER:
            insert("counter", now, track, event.counter_value)
            continue
        if event.type == event_of.TYPE_SLICE_END:
            number, begin, name = open_slices[track].pop()
            insert("slice", number, begin, now - begin, track, name)
            continue
        slices += 1
        if event.type == event_of.TYPE_SLICE_BEGIN:
            open_slices.setdefault(track, []).append((slices, now, event.name))
        elif event.type == event_of.TYPE_INSTANT:
            insert("slice", slices, now, 0, track, event.name)
        else:
            fail(f"an event of type {event.type}")
        for flow in event.flow_ids:
            out[flow] = slices
        for flow in event.terminating_flow_ids:
            insert("flow", out.pop(flow), slices)
    if out:
        fail(f"{len(out)} interrupts did not arrive")
    if any(open_slices.values()):
        fail("slices do not end")
    return lambda query: tables.execute(query).fetchone()[0] or 0


def processed(path, shell):
    """The trace in Perfetto's trace processor."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    processor = TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=shell))
    return lambda query: next(iter(processor.query(f"select ({query}) as value"))).value or 0


kind, path, report = sys.argv[1:]
shell = os.environ.get("TRACE_PROCESSOR")
query = processed(path, shell) if shell else decoded(path)
runs = json.load(open(report))["runs"]


def figure(name, of=0):
    """A figure of a run of the report."""
    return round(runs[of]["metrics"][name]["median"])


def slices(name, track="true"):
    """The number of slices whose name begins so."""
    joined = "select count(*) from slice join track on slice.track_id = track.id"
    return query(f"{joined} where slice.name glob '{name}*' and {track}")


def last(name):
    """The last values of all counters with this name, added up."""
    joined = "select value, max(ts) from counter join track on counter.track_id = track.id"
    return query(f"select sum(value) from ({joined} where track.name = '{name}' group by track_id)")


def equal(what, *numbers):
    if len(set(numbers)) != 1:
        fail(f"{what}: {', '.join(map(str, numbers))}")
    print(f"{kind}: {what}: {numbers[0]}, {len(numbers)} times")


equal("slices without an end", 0, query("select count(*) from slice where dur < 0"))
zone_locks = "track.name glob 'node [0-9] *'"
if kind in ("page-fault", "socket-pairs", "mmap-read", "high-alloc"):
    equal("zone-lock acquisitions", last("zone-lock acquisitions"), slices("CPU ", zone_locks))
    equal("zone-lock waits", last("zone-lock waits"), slices("waits for node "))
    equal("waiters at the end", 0, query(f"select sum(value) from (select value, max(ts) from counter join track on "
                                         f"counter.track_id = track.id where track.name glob '*: waiters' "
                                         f"group by track_id)"))
    arrows = query("select count(*) from flow")
    equal("interrupts", last("interrupts"), arrows, slices("interrupts CPU "), slices("interrupt from CPU "))
if kind == "mmap-read":
    equal("interrupts for flushes", figure("ipis"), last("interrupts for flushes"))
    equal("direct reclaim", figure("allocstall"), slices("direct reclaim"))
    equal("pages", figure("pages"), last("pages"))
    equal("unmapped pages", figure("unmaps"), last("unmapped pages"))
if kind == "high-alloc":
    equal("direct reclaim", figure("allocstall"), slices("direct reclaim"))
if kind == "replay":
    acquisitions = figure("zone_lock_acquisitions")
    equal("zone-lock acquisitions", acquisitions, last("zone-lock acquisitions"), slices("CPU ", zone_locks))
    equal("refused allocations", figure("refused_allocations"), last("refused allocations"))
    fallbacks = figure("fallbacks") + figure("fallbacks", 1)
    equal("fallbacks", fallbacks, slices("CPU ", "track.name = 'fallbacks'"))
    series = runs[0]["series"]
    for counter, name in [("free", "frames_free"), ("on CPU lists", "frames_on_cpu_lists"), ("in use", "frames_in_use")]:
        equal(f"frames {counter}", last(counter), series[name][-1][1])
if kind == "hunt":
    equal("steps that break", 1, slices("fails: "), slices("stale TLB access"))
