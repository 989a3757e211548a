//! Part one: initialising the memory of the whole machine.
//!
//! The experiment's goal for initialisation applies to the column `fresh`. There the metadata was
//! never accessed, as at boot, so a page fault and a cleared page for every 4 KiB are part of the
//! time. The columns `huge pages` and `touched` show how much that is.

use framewright::frame::FRAME_SIZE;

use super::{
    LargeMemory,
    machine::{BufferState, Machine},
    samples::{Samples, Topic, Value},
};
use crate::Error;

pub(super) const TOPIC: Topic = Topic {
    title: "start",
    note: "CPU time of one thread, including page faults on the metadata. fresh: untouched 4 KiB pages;\n\
           huge pages: untouched transparent huge pages; touched: pages written to before",
};

/// The column of the goal.
pub(super) const FRESH: &str = "fresh";
/// The row of the initialisation.
pub(super) const INIT: &str = "initialise_ns";

const COLUMNS: [(BufferState, &str); 3] = [
    (BufferState::Untouched, FRESH),
    (BufferState::HugePages, "huge pages"),
    (BufferState::Touched, "touched"),
];

pub(super) fn measure(plan: &LargeMemory, _round: u64, samples: &mut Samples) -> Result<(), Error> {
    let machine = Machine::whole(plan);
    let layout = machine.layout()?;
    for (state, column) in COLUMNS {
        let took = machine.boot(state, |_, took| Ok(took))?;
        samples.add(TOPIC, column, INIT, Value::time(took));
        let managed = plan.frames * FRAME_SIZE as u64;
        samples.add(TOPIC, column, "memory_bytes_per_s", Value::rate(managed, took));
        samples.add(TOPIC, column, "metadata_bytes", Value::Bytes(layout.bytes() as u64));
        let lists = layout.cpu_list_bytes() as u64;
        samples.add(TOPIC, column, "cpu_lists_bytes", Value::Bytes(lists));
    }
    Ok(())
}
