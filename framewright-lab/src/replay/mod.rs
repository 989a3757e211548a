//! Replay: the library repeats the work of a real kernel.
//!
//! A recording has the allocations and frees of each CPU, with their frames, in order. The replay
//! is a machine with the same number of CPUs. One thread replays the events of all CPUs one after
//! another, in recorded order: the same recording and settings give the same result, byte for byte.
//! There are no real frames, only the allocator's own metadata.
//!
//! The replay repeats *logical* allocations. A recorded frame number is used only to find the
//! allocation to which a free belongs; the library chooses the position of a block. Five cases need
//! care:
//!
//! * **Frees without a recorded allocation.** The machine was running before the recording started,
//!   so up to half of the frees belong to earlier allocations. Such a free is replaced by the free
//!   of a *stand-in*: a block of the same order from memory that was in use at the start.
//! * **The start.** With a snapshot, the replay starts with memory in the state of the snapshot:
//!   the same zones with the same reserves, as many frames in use and on CPU lists, and the same
//!   free blocks by zone, migratetype and order, so fragmentation starts as in the kernel. Without
//!   a snapshot, a [survey](Survey) of the recording computes the necessary memory.
//! * **Zones.** A recorded frame number determines the zone that the kernel used. The replay
//!   allocates from the same zone.
//! * **Unrecorded frees.** If the kernel allocates a frame that is still allocated by the events so
//!   far, the free of this frame was not recorded. The replay frees the frame first.
//! * **Parts and unions.** A block may be freed in parts, and parts may be freed as one block. The
//!   replay splits blocks for this.
//!
//! Frees without a stand-in are counted as *unmatched*. At the end, the frames in use are compared
//! with the number computed from the recording: start + allocated - freed. Free blocks are compared
//! with the snapshot from the end, if there is one.
//!
//! | module      | job                                                             |
//! |-------------|-----------------------------------------------------------------|
//! | `survey`    | first reading: validity, CPUs, necessary memory                 |
//! | `requests`  | the recorded requests by order, migratetype, flags and process  |
//! | `kept`      | the events from the first reading                               |
//! | `packed`    | an event in 16 bytes                                            |
//! | `census`    | the state of the recorded frames at the start                   |
//! | `ledger`    | the recorded blocks that are allocated, by number               |
//! | `by_frame`  | a number for each recorded frame                                |
//! | `plan`      | the machine to build: zones, CPUs, memory in use and free       |
//! | `layout`    | positions for free blocks in a pageblock                        |
//! | `map`       | the position and layout of each pageblock of a zone             |
//! | `allocator` | the interface to the allocator                                  |
//! | `library`   | a replay on the library                                         |
//! | `machine`   | its memory and the tokens of its CPUs                           |
//! | `holds`     | holds of zone locks                                             |
//! | `list_buddy`| a replay on `list-buddy`, the classic design of kernels         |
//! | `lists`     | fills the lists of its CPUs                                     |
//! | `stand_ins` | memory in use whose allocation was not recorded                 |
//! | `engine`    | the replay itself: event by event                               |
//! | `kernel`    | the recorded kernel's own activity, counted                     |
//! | `lock_waits` | the recorded kernel's waits for zone locks, and holds of them   |
//! | `tracks`    | the trace of a replay for Perfetto                              |
//! | `state`     | the state of memory at the start of a recording, for other machines |
//! | `report`    | the result                                                      |

mod allocator;
mod by_frame;
mod census;
mod engine;
mod holds;
mod kept;
mod kernel;
mod layout;
mod ledger;
mod library;
mod list_buddy;
mod lists;
mod lock_waits;
mod machine;
mod map;
mod packed;
mod plan;
mod report;
mod requests;
mod stand_ins;
mod state;
mod survey;
mod tracks;

pub use holds::OwnLock;
pub use kernel::{FreeReport, KernelActivity};
pub(crate) use library::aligned;
pub use lock_waits::KernelLock;
pub(crate) use lock_waits::LockWaits;
pub(crate) use machine::Serial;
pub(crate) use plan::uncapped;
pub use report::{
    Activity, Balance, CpuReport, Fallback, HeldReport, ListBuddyReport, Logical, MachineReport,
    ReplayReport, ZoneReport,
};
pub use requests::Requests;
pub(crate) use state::Pageblock;
pub use state::State;
pub use survey::{Recording, Survey};
pub use tracks::Traced;

use framewright::{Tuning, tlb::MAX_CPUS};

use crate::Error;

use crate::trace::Snapshot;

/// The kernel's own tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// From the start of the recording: the initial state of the replay.
    pub before: Option<Snapshot>,
    /// From its end: compared with the final state.
    pub after: Option<Snapshot>,
}

/// Replays `recording` with the settings `tuning`.
///
/// `survey` is the result of [`Survey::of`] for the same recording, for any number of replays.
/// `progress` gets the finished part, from 0 to 1, at intervals.
///
/// # Errors
/// The recording cannot be read, the machine of the recording or the snapshot cannot be built with
/// these settings, or the allocator violated one of its invariants.
pub fn run(
    recording: &Recording,
    survey: &Survey,
    tables: &Tables,
    tuning: &Tuning,
    progress: &mut dyn FnMut(f64),
) -> Result<ReplayReport, Error> {
    run_traced(recording, survey, tables, tuning, None, progress)
}

/// As [`run`], with a trace.
///
/// # Errors
/// As [`run`].
pub fn run_traced(
    recording: &Recording,
    survey: &Survey,
    tables: &Tables,
    tuning: &Tuning,
    traced: Option<Traced<'_>>,
    progress: &mut dyn FnMut(f64),
) -> Result<ReplayReport, Error> {
    let tuning = match &tables.before {
        Some(snapshot) => layout::recorded(tuning, snapshot),
        None => *tuning,
    };
    let plan = plan(survey, tables)?;
    library::replay(recording, survey, &plan, tables, &tuning, traced, progress)
}

/// Replays `recording` on `list-buddy`, the classic design of kernels, which starts in the same
/// state as the library.
///
/// It has no watermarks and no reserves, so it may use a zone to its last frame. A trace has its counters only.
///
/// # Errors
/// The recording cannot be read, or the machine of the recording or the snapshot cannot be built.
pub fn run_list_buddy(
    recording: &Recording,
    survey: &Survey,
    tables: &Tables,
    tuning: &framewright_peers::list_buddy::Tuning,
    traced: Option<Traced<'_>>,
    progress: &mut dyn FnMut(f64),
) -> Result<ListBuddyReport, Error> {
    list_buddy::replay(recording, survey, &plan(survey, tables)?, tuning, traced, progress)
}

/// The machine of the recording.
fn plan(survey: &Survey, tables: &Tables) -> Result<plan::Plan, Error> {
    let plan = match &tables.before {
        Some(snapshot) => plan::Plan::from_snapshot(snapshot, survey)?,
        None => plan::Plan::from_survey(survey),
    };
    let (frames, file) = (plan.managed(), &survey.file);
    if usize::from(plan.cpus) > MAX_CPUS {
        return Err(Error::input(format_args!(
            "{file}: events of {} CPUs; a replay can have at most {MAX_CPUS}",
            plan.cpus
        )));
    }
    if frames > plan::MOST_FRAMES {
        return Err(Error::input(format_args!(
            "{file}: a machine of {frames} frames of 4 KiB; a replay can have at most {}",
            plan::MOST_FRAMES
        )));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests;
