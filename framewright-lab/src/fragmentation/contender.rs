//! The allocators that are compared.

use framewright::{InitError, Tuning};
use framewright_peers::{BuddySystem, FrameAllocDepot, ListBuddy, Peer};
use indexmap::IndexMap;

use super::{Experiment, Setup, cpu, cpu::Cpus, outcome::Outcome};
use crate::{
    micro::framewright_row::{Blocks, Ours, without_watermarks},
    workloads::Side,
};

/// CPUs that an allocator is built for at the least, as in `alloc-micro`.
const CPUS: u16 = 2;
/// CPUs that one is built for at the most.
pub(super) const MOST_CPUS: u16 = 64;

/// One allocator, as it takes part.
#[derive(Clone, Debug)]
pub struct Contender {
    /// The name of its column.
    pub label: String,
    /// Its settings that the result names.
    pub settings: IndexMap<String, String>,
    /// Which it is.
    pub allocator: Allocator,
}

/// An allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocator {
    /// The library.
    Framewright(Tuning),
    /// The classic design.
    ListBuddy,
    /// `frame-alloc` with its per-CPU magazines and their depot.
    FrameAllocDepot,
    /// `buddy_system_allocator`.
    BuddySystem,
}

/// How a run ended.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// Frames that could be allocated from the allocator when it was new.
    pub(super) capacity: u64,
    /// Frames that could be allocated after everything was freed.
    pub(super) back: u64,
}

impl Contender {
    /// The library with a side's settings. Others have no watermarks, so it gets none, either, unless
    /// the side has a setting for them.
    #[must_use]
    pub fn framewright(label: &str, side: &Side) -> Self {
        let mut tuning = side.tuning;
        let without = without_watermarks(tuning);
        if !side.settings.contains_key("zone.min_free") {
            tuning.zone.min_free = without.zone.min_free;
        }
        if !side.settings.contains_key("zone.watermark_scale") {
            tuning.zone.watermark_scale = without.zone.watermark_scale;
        }
        Self {
            label: label.to_owned(),
            settings: side.settings.clone(),
            allocator: Allocator::Framewright(tuning),
        }
    }

    /// Another allocator, by its own name.
    #[must_use]
    pub fn other(allocator: Allocator) -> Self {
        let label = match allocator {
            Allocator::Framewright(_) => "framewright",
            Allocator::ListBuddy => ListBuddy::NAME,
            Allocator::FrameAllocDepot => FrameAllocDepot::<2>::NAME,
            Allocator::BuddySystem => BuddySystem::NAME,
        };
        Self { label: label.to_owned(), settings: IndexMap::new(), allocator }
    }

    /// Checks that the library accepts the tuning.
    pub(super) fn check(&self, setup: &Setup) -> Result<(), InitError> {
        match self.allocator {
            Allocator::Framewright(tuning) => {
                Ours::<Blocks>::with_tuning(setup.frames, cpus(setup), tuning).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Has it do the experiment once.
    pub(super) fn play<E: Experiment>(
        &self,
        experiment: &E,
        setup: &Setup,
        share: u8,
        seed: u64,
        tell: &mut dyn FnMut(u64),
    ) -> Ended {
        let (frames, cpus) = (setup.frames, cpus(setup));
        match self.allocator {
            Allocator::Framewright(tuning) => {
                let new = || Ours::<Blocks>::with_tuning(frames, cpus, tuning);
                let new = || new().expect("a tuning that was checked");
                play(experiment, setup, share, seed, new, tell)
            }
            Allocator::ListBuddy => {
                play(experiment, setup, share, seed, || ListBuddy::new(frames, cpus), tell)
            }
            // The number of CPUs is a part of its type.
            Allocator::FrameAllocDepot if cpus <= usize::from(CPUS) => {
                let new = || FrameAllocDepot::<{ CPUS as usize }>::new(frames, cpus);
                play(experiment, setup, share, seed, new, tell)
            }
            Allocator::FrameAllocDepot => {
                let new = || FrameAllocDepot::<{ MOST_CPUS as usize }>::new(frames, cpus);
                play(experiment, setup, share, seed, new, tell)
            }
            Allocator::BuddySystem => {
                play(experiment, setup, share, seed, || BuddySystem::new(frames, cpus), tell)
            }
        }
    }
}

fn cpus(setup: &Setup) -> usize {
    setup.threads.max(CPUS).into()
}

fn play<E: Experiment, P: Peer + 'static>(
    experiment: &E,
    setup: &Setup,
    share: u8,
    seed: u64,
    new: impl Fn() -> P,
    tell: &mut dyn FnMut(u64),
) -> Ended {
    let capacity = cpu::capacity(&new(), cpus(setup));
    let mut cpus = Cpus::new(new(), setup.frames, setup.threads, setup.free_by, seed);
    let outcome = experiment.play(setup, share, &mut cpus, tell);
    Ended { outcome, capacity, back: cpus.give_back() }
}
