//! Replay: what a real kernel did, done again by this library.
//!
//! A recording says which CPU allocated and freed which frame, in which order. The replay is a
//! machine with as many CPUs whose events run one after another in recorded order, on one thread:
//! the same recording and settings give the same result, byte for byte. There are no real frames
//! behind it, only the allocator's own metadata.
//!
//! It replays *logical* allocations. A recorded frame number only says which allocation a free ends;
//! where a block lies is our allocator's choice. Five things need care:
//!
//! * **Frees of what was never seen allocated.** The machine was running before the recording began,
//!   so up to half of the frees end allocations from before. Each frees a *stand-in*: a block
//!   of the same order of memory that the snapshot shows in use.
//! * **The beginning.** Where there is a snapshot, memory begins as it shows it: the same zones with
//!   the same reserves, as many frames in use and on CPU lists, and the same free blocks by zone,
//!   migratetype and order, so that fragmentation begins where the kernel's did. Without one, a
//!   [survey](Survey) of the recording tells how much memory it needs.
//! * **Zones.** A recorded frame number tells which zone the kernel took: ours takes the same.
//! * **Frees that the recording does not show.** The kernel allocates a frame that is still allocated
//!   by the recording: it was freed unseen, and is freed here first.
//! * **Parts and unions.** A block may be freed in parts, and parts as one block; the ledger splits.
//!
//! What no stand-in can explain is counted as *unmatched*. At the end the frames in use are compared
//! with the recording's own arithmetic, start + allocated - freed; and free blocks with the snapshot
//! from the end, if there is one.
//!
//! | module      | job                                                             |
//! |-------------|-----------------------------------------------------------------|
//! | `survey`    | first reading: is it sound, how many CPUs, how much memory      |
//! | `census`    | where the frames it names were when it began                    |
//! | `plan`      | the machine to build: zones, CPUs, what is in use, what is free |
//! | `layout`    | where free blocks of given orders fit in a pageblock            |
//! | `map`       | where each pageblock of a zone lies, and its layout             |
//! | `machine`   | a memory and the tokens of its CPUs                             |
//! | `lists`     | fills the lists of its CPUs                                     |
//! | `stand_ins` | memory in use that the recording did not see allocated          |
//! | `engine`    | second reading: event by event                                  |
//! | `kernel`    | what the recorded kernel itself did, counted                    |
//! | `state`     | how memory was when a recording began, for another machine      |
//! | `report`    | the result                                                      |

mod census;
mod engine;
mod kernel;
mod layout;
mod lists;
mod machine;
mod map;
mod plan;
mod report;
mod stand_ins;
mod state;
mod survey;

pub use kernel::{Blocks, FreeMemory, FreeReport, KernelActivity, SHOWN_ORDERS};
pub use report::{
    Activity, Balance, CpuReport, HeldReport, Logical, MachineReport, ReplayReport, Sample,
    ZoneReport,
};
pub(crate) use state::Pageblock;
pub use state::State;
pub use survey::{Recording, Survey};

use framewright::Tuning;

use crate::Error;

use crate::trace::Snapshot;

/// The kernel's own tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// From when the recording began: the replay begins in that state.
    pub before: Option<Snapshot>,
    /// From when it ended: the state at the end is compared with it.
    pub after: Option<Snapshot>,
}

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
    tables: &Tables,
    tuning: &Tuning,
    progress: &mut dyn FnMut(f64),
) -> Result<ReplayReport, Error> {
    let (plan, tuning) = match &tables.before {
        Some(snapshot) => {
            (plan::Plan::from_snapshot(snapshot, survey)?, layout::recorded(tuning, snapshot))
        }
        None => (plan::Plan::from_survey(survey), *tuning),
    };
    engine::replay(recording, survey, &plan, tables, &tuning, progress)
}

#[cfg(test)]
mod tests;
