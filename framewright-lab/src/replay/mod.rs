//! Replay: what a real kernel did, done again by this library.
//!
//! A recording says which CPU allocated and freed which frame, in which order. The replay is a
//! machine with as many CPUs whose events run one after another in recorded order, on one thread:
//! the same recording and settings give the same result, byte for byte. There are no real frames
//! behind it, only the allocator's own metadata.
//!
//! It replays *logical* allocations. A recorded frame number only says which allocation a free ends;
//! where a block lies is our allocator's choice. Four things need care:
//!
//! * **Frees of what was never seen allocated.** The machine was running before the recording began,
//!   so up to half of the frees end allocations from before. Each frees a *stand-in*: a block
//!   of the same order of memory that the snapshot shows in use.
//! * **The beginning.** Where there is a snapshot, memory begins as it shows it: as many frames in use
//!   and on CPU lists, and the same free blocks by migratetype and order, so that fragmentation
//!   begins where the kernel's did. Without one, a [survey](Survey) of the recording tells how much
//!   memory it needs.
//! * **Frees that the recording does not show.** The kernel allocates a frame that is still allocated
//!   by the recording: it was freed unseen, and is freed here first.
//! * **Parts and unions.** A block may be freed in parts, and parts as one block; the ledger splits.
//!
//! What no stand-in can explain is counted as *unmatched*. At the end the frames in use are compared
//! with the recording's own arithmetic: start + allocated - freed.
//!
//! | module      | job                                                             |
//! |-------------|-----------------------------------------------------------------|
//! | `recording` | a recording that can be read more than once                     |
//! | `survey`    | first reading: is it sound, how many CPUs, how much memory      |
//! | `plan`      | the machine to build: size, CPUs, what is in use, what is free  |
//! | `serial`    | the platform: one thread, no frames, recorded time              |
//! | `machine`   | a memory and the tokens of its CPUs                             |
//! | `start`     | brings a machine into the planned state                         |
//! | `layout`    | where free blocks of given orders fit in a pageblock            |
//! | `stand_ins` | memory in use that the recording did not see allocated          |
//! | `ledger`    | which recorded block is which of ours                           |
//! | `engine`    | second reading: event by event                                  |
//! | `kernel`    | what the recorded kernel itself did, counted                    |
//! | `report`    | the result                                                      |

mod engine;
mod error;
mod kernel;
mod layout;
mod ledger;
mod machine;
mod plan;
mod recording;
mod report;
mod serial;
mod stand_ins;
mod start;
mod survey;

pub use error::ReplayError;
pub use kernel::KernelActivity;
pub use recording::Recording;
pub use report::{
    Activity, Balance, CpuReport, FreeMemory, Logical, MachineReport, ReplayReport, Sample,
};
pub use survey::Survey;

use framewright::Tuning;

use crate::trace::Snapshot;

/// Replays `recording` with the settings `tuning`.
///
/// `survey` is what [`Survey::of`] said of the same recording; it serves any number of replays.
/// `progress` is called now and then with the part that is done, from 0 to 1.
///
/// # Errors
/// The recording cannot be read, the machine that it or the snapshot describes cannot be built with
/// these settings, or the allocator violated one of its invariants.
pub fn run(
    recording: &Recording,
    survey: &Survey,
    snapshot: Option<&Snapshot>,
    tuning: &Tuning,
    progress: &mut dyn FnMut(f64),
) -> Result<ReplayReport, ReplayError> {
    let plan = match snapshot {
        Some(snapshot) => plan::Plan::from_snapshot(snapshot, survey),
        None => plan::Plan::from_survey(survey),
    };
    engine::replay(recording, survey, &plan, snapshot, tuning, progress)
}

#[cfg(test)]
mod tests;
