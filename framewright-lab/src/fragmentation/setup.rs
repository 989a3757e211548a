//! The parameters of both experiments.

use framewright::{InitError, Tuning, frame::PAGEBLOCK_FRAMES};
use framewright_peers::{
    BuddySystem, FrameAllocDepot, ListBuddy, Peer,
    list_buddy::{self, MigrateType},
};
use indexmap::IndexMap;

use super::{
    Experiment, Refusal,
    cpu::{self, Cpus, HUGE},
    outcome::Outcome,
    simulated::{self, SimulatedCpus},
};
use crate::{
    Error,
    choice::choice,
    clock,
    micro::framewright_row::{Blocks, Ours, without_watermarks},
    workloads::{Side, check_reserve},
};

/// 64 MiB: smaller memory has too few pageblocks for meaningful figures.
const LEAST: u64 = 1 << 14;
/// 64 GiB: the page descriptors of `list-buddy` then need a GiB.
const MOST: u64 = 1 << 24;
/// 16 MiB: with less, most free frames are on CPU lists.
const LEAST_PER_THREAD: u64 = 1 << 12;

/// The parameters of both experiments.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Frames that every allocator manages: whole pageblocks.
    pub frames: u64,
    /// Threads, each a CPU with an equal share of the memory and of the work; or the CPUs of the
    /// simulated machine.
    pub threads: u16,
    /// The simulated machine; `None`: threads of this process.
    pub simulated: Option<SimulatedCpus>,
    /// Migratetypes of the blocks.
    pub types: Types,
    /// The CPU that frees a block.
    pub free_by: FreeBy,
    /// The allocators.
    pub columns: Vec<Column>,
    /// Shares of memory in percent: in use for `churn`, free for `replace`.
    pub shares: Vec<u8>,
    /// Seeds; figures are medians over them.
    pub seeds: Vec<u64>,
}

choice! {
    /// Migratetypes of the blocks. Huge pages are movable in any case.
    pub enum Types {
        /// All are movable
        #[default]
        Movable = "movable",
        /// 5 % are unmovable, 15 % reclaimable; huge pages are movable
        Mixed = "mixed",
    }
}

choice! {
    /// The CPU that frees a block.
    pub enum FreeBy {
        /// The CPU that allocated it
        #[default]
        Same = "same",
        /// Another: the next one, or a second CPU if there is one thread
        Other = "other",
    }
}

impl Setup {
    /// The scheduling of several threads: CPU affinity and priority. `None`: there is one
    /// thread, or the CPUs are simulated.
    #[must_use]
    pub fn pinning(&self) -> Option<String> {
        let is_parallel = self.simulated.is_none() && self.threads > 1;
        is_parallel.then(|| clock::describe_threads(self.threads.into()))
    }

    /// Frames of each thread.
    pub(super) fn frames_per_thread(&self) -> u64 {
        self.frames / u64::from(self.threads)
    }

    /// Free frames divided by the frames of a huge page.
    pub(super) fn ideal(&self, used: u64) -> u64 {
        (self.frames - used) >> HUGE
    }

    /// Checks the parameters; `name` is the name of the share of memory.
    pub(super) fn check(&self, name: &'static str) -> Result<(), Refusal> {
        let (frames, threads) = (self.frames, self.threads);
        if !(LEAST..=MOST).contains(&frames) || !frames.is_multiple_of(PAGEBLOCK_FRAMES as u64) {
            let (mib, least, most) = (frames >> 8, LEAST >> 8, MOST >> 18);
            let why =
                format_args!("{mib} MiB cannot be measured: choose {least} MiB to {most} GiB");
            return Err(("memory", Error::input(why)));
        }
        if let Some(simulated) = &self.simulated {
            simulated.check(self, LEAST_PER_THREAD)?;
        }
        let most = if self.simulated.is_some() { u64::MAX } else { MOST_CPUS.into() };
        let most = (frames / LEAST_PER_THREAD).min(most);
        if !(1..=most).contains(&threads.into()) {
            let mib = frames >> 8;
            let why = format_args!("{threads} threads with {mib} MiB: choose 1 to {most} threads");
            return Err(("threads", Error::input(why)));
        }
        for (index, &share) in self.shares.iter().enumerate() {
            if !(1..=99).contains(&share) {
                let why = format_args!("{share} % of memory cannot be measured: choose 1 to 99");
                return Err((name, Error::input(why)));
            }
            if self.shares[..index].contains(&share) {
                return Err((name, Error::input(format_args!("{share} % is named twice"))));
            }
        }
        self.columns.iter().try_for_each(|column| {
            if let Allocator::Framewright(tuning) = &column.allocator {
                check_reserve(tuning, frames).map_err(|error| ("set", error))?;
            }
            column
                .check(self)
                .map_err(|error| ("set", Error::input(format_args!("{}: {error}", column.label))))
        })
    }
}

impl Types {
    /// The migratetype of a block of this order.
    pub(super) fn draw(self, order: u8, random: &mut fastrand::Rng) -> MigrateType {
        if self == Types::Movable || order == HUGE {
            return MigrateType::Movable;
        }
        match random.u8(..100) {
            0..5 => MigrateType::Unmovable,
            5..20 => MigrateType::Reclaimable,
            _ => MigrateType::Movable,
        }
    }
}

/// Minimum number of CPUs that an allocator is built for, as in `alloc-micro`.
const CPUS: u16 = 2;
/// Maximum number of CPUs that an allocator is built for.
pub(super) const MOST_CPUS: u16 = 64;

/// One allocator with its settings.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name of its column.
    pub label: String,
    /// The settings that the result names.
    pub settings: IndexMap<String, String>,
    /// The allocator.
    pub allocator: Allocator,
}

/// An allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has a few of them")]
pub enum Allocator {
    /// The library.
    Framewright(Tuning),
    /// `list-buddy`, the classic design of kernels.
    ListBuddy,
    /// `frame-alloc` with its per-CPU magazines and their depot.
    FrameAllocDepot,
    /// `buddy_system_allocator`.
    BuddySystem,
}

/// The result of a run with the frames before and after it.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// Frames that could be allocated from the new allocator.
    pub(super) capacity: u64,
    /// Frames that could be allocated after everything was freed.
    pub(super) back: u64,
}

impl Column {
    /// The library with the settings of a side. Other allocators have no watermarks. The library
    /// therefore has none either, unless the side sets them.
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

    /// Checks that the library accepts the tuning. On a simulated machine, [`Column::play`] does
    /// this.
    pub(super) fn check(&self, setup: &Setup) -> Result<(), InitError> {
        match self.allocator {
            Allocator::Framewright(tuning) if setup.simulated.is_none() => {
                Ours::<Blocks>::with_tuning(setup.frames, cpus(setup), tuning).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Runs the experiment once.
    ///
    /// # Errors
    ///
    /// On a simulated machine: it cannot have such a memory, or the allocator violated an
    /// invariant.
    pub(super) fn play<E: Experiment>(
        &self,
        experiment: &E,
        setup: &Setup,
        share: u8,
        seed: u64,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Ended, Error> {
        if let Some(machine) = &setup.simulated {
            return simulated::play(self, machine, experiment, setup, share, seed, tell);
        }
        let (frames, cpus) = (setup.frames, cpus(setup));
        match self.allocator {
            Allocator::Framewright(tuning) => {
                let new = || Ours::<Blocks>::with_tuning(frames, cpus, tuning);
                let new = || Ok(new().expect("a tuning that was checked"));
                play(experiment, setup, share, seed, new, tell)
            }
            Allocator::ListBuddy => {
                let tuning = list_buddy::Tuning::default();
                let new = || Ok(ListBuddy::try_with_tuning(frames, cpus, &tuning)?);
                play(experiment, setup, share, seed, new, tell)
            }
            // The number of CPUs is a part of its type.
            Allocator::FrameAllocDepot if cpus <= usize::from(CPUS) => {
                let new = || Ok(FrameAllocDepot::<{ CPUS as usize }>::new(frames, cpus));
                play(experiment, setup, share, seed, new, tell)
            }
            Allocator::FrameAllocDepot => {
                let new = || Ok(FrameAllocDepot::<{ MOST_CPUS as usize }>::new(frames, cpus));
                play(experiment, setup, share, seed, new, tell)
            }
            Allocator::BuddySystem => {
                let new = || Ok(BuddySystem::new(frames, cpus));
                play(experiment, setup, share, seed, new, tell)
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
    new: impl Fn() -> Result<P, Error>,
    tell: &mut dyn FnMut(u64),
) -> Result<Ended, Error> {
    let handles = cpus(setup);
    let capacity = cpu::capacity(&new()?, handles);
    let mut cpus = Cpus::new(new()?, setup.frames, setup.threads, setup.free_by, seed);
    let outcome = experiment.play(setup, share, &mut cpus, tell)?;
    cpus.free_all()?;
    Ok(Ended { outcome, capacity, back: cpu::capacity(cpus.peer(), handles) })
}
