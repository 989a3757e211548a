//! Part one: making the memory of the whole machine.
//!
//! The goal is judged on books that nobody has touched: whoever starts a machine has no others,
//! and the kernel's part, a fault and a cleared page for every 4 KiB, is paid then. The other two
//! columns show how much of it that is.

use framewright::frame::FRAME_SIZE;

use super::{
    LargeMemory,
    machine::{Books, Machine},
    samples::{Samples, Topic, Value},
};
use crate::Error;

pub(super) const TOPIC: Topic = Topic {
    title: "start",
    note: "CPU time of one thread, with the page faults of the books: fresh from the kernel on pages\n\
           of 4 KiB, or on transparent huge pages; written to before",
};

/// The column that the goal is about.
pub(super) const FRESH: &str = "books fresh";
/// Making the memory.
pub(super) const INIT: &str = "initialise";

const COLUMNS: [(Books, &str); 3] =
    [(Books::Untouched, FRESH), (Books::HugePages, "huge pages"), (Books::Touched, "touched")];

pub(super) fn measure(plan: &LargeMemory, _round: u64, samples: &mut Samples) -> Result<(), Error> {
    let machine = Machine::whole(plan);
    let layout = machine.layout()?;
    for (books, column) in COLUMNS {
        let took = machine.boot(books, |_, took| Ok(took))?;
        samples.add(TOPIC, column, INIT, Value::time(took));
        let managed = plan.frames * FRAME_SIZE as u64;
        samples.add(TOPIC, column, "memory per second", Value::rate(managed, took));
        samples.add(TOPIC, column, "books", Value::Bytes(layout.bytes() as u64));
        let lists = layout.cpu_list_bytes() as u64;
        samples.add(TOPIC, column, "of these: CPU lists", Value::Bytes(lists));
    }
    Ok(())
}
