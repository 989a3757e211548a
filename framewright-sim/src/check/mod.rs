//! Invariants of a memory on a simulated machine.
//!
//! | when                         | what                                                          |
//! |------------------------------|---------------------------------------------------------------|
//! | at every entry to an exclusive section (a lock or the lists of a CPU) | no other CPU is in that section; only in schedules that ignore clocks (the engine ends the run) |
//! | every N steps                | [`in_between`]: headers agree with maps and lists             |
//! | every N steps                | [`above_min`]: only entitled requests went below the min watermark |
//! | at every allocation and free | [`Ledger`]: no frame is allocated twice or freed twice        |
//! | at the end of a run          | [`at_rest`]: each frame is in one place, the counts add up, and programs hold exactly the allocated frames; the engine checks that no lock is held and no CPU is in an exclusive section |
//!
//! ```
//! # use framewright::{Config, FrameRange, Layout, Memory, MemoryRange, Pfn};
//! # use framewright_sim::{check, engine::{Machine, Options, Schedule}, platform::{MetadataBuffer, Settings, Simulated}};
//! # let machine = Machine::new(2, Options { schedule: Schedule::Random(1), ..Options::default() });
//! # let map = [MemoryRange::from(FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap())];
//! # let config = Config::new(&map, 2);
//! # let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).unwrap());
//! # let memory = Memory::new(Simulated::new(&machine, Settings::default()), &config, metadata.as_mut()).unwrap();
//! let ledger = check::Ledger::new();
//! let watch = || check::in_between(&memory);
//! machine.run_watched(vec![Box::new(|cpu| { /* allocates and frees frames */ })], 100, &watch).unwrap();
//! check::at_rest(&memory, Some(&ledger)).unwrap();
//! ```

mod ledger;

pub use ledger::Ledger;

use crate::platform::Simulated;
use framewright::Memory;

/// Checks the invariants that hold whenever no CPU is inside an exclusive section.
///
/// # Errors
///
/// The violated invariant.
pub fn in_between(memory: &Memory<'_, Simulated>) -> Result<(), String> {
    memory.check_zones().map_err(|violation| violation.to_string())
}

/// Checks that no zone has fewer free frames than its min watermark without a boost, minus
/// `urgent`: the frames that were allocated by requests that may go below it.
///
/// This always holds in a memory that starts with more free frames. It does not hold if frames
/// leave a zone in other ways: by isolation, as an extent, or by memory hotplug.
///
/// # Errors
///
/// The zone, its free frames and its watermark.
pub fn above_min(memory: &Memory<'_, Simulated>, urgent: u64) -> Result<(), String> {
    match memory.free_and_min().find(|&(_, free, min)| free + urgent < min) {
        None => Ok(()),
        Some((id, free, min)) => Err(format!(
            "zone {} has {free} free frames, below its min watermark of {min}, and requests that may \
             go below it hold {urgent}",
            id.index(),
        )),
    }
}

/// Checks the invariants that hold when no operation is in progress, and that `ledger` agrees with
/// the memory.
///
/// # Errors
///
/// The violated invariant.
pub fn at_rest(memory: &Memory<'_, Simulated>, ledger: Option<&Ledger>) -> Result<(), String> {
    memory.check().map_err(|violation| violation.to_string())?;
    let allocated = memory.in_use();
    match ledger.map(Ledger::held) {
        Some(held) if held != allocated => {
            Err(format!("programs hold {held} frames, and {allocated} are allocated"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
