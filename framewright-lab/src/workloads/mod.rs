//! Workloads: what systems do to a page allocator, written once and run on any machine.
//!
//! A workload is two things. Its *body* is what one CPU does: a loop over a [`Cpu`](cpu::Cpu),
//! which is an allocator as one CPU sees it and a world with time and memory. It knows neither
//! threads nor clocks, nor which allocator it asks. A *driver* belongs to a kind of machine: it
//! makes the CPUs, runs the body on each, and turns counters and times into figures.
//!
//! ```text
//!   page_fault   kbuild   socket_pairs      bodies: what a CPU does
//!          └────────┼────────┘
//!                  cpu                      what a body holds
//!          ┌────────┴────────┐
//!      Allocator           World            the seam
//!      Library, Lists      one per kind of machine
//! ```
//!
//! | module         | job                                                                  |
//! |----------------|----------------------------------------------------------------------|
//! | `allocator`    | the seam to allocators, and the library behind it                    |
//! | `world`        | the seam to machines: time, work beside the allocator, contents      |
//! | `pipe`         | how CPUs hand blocks to one another                                  |
//! | `cpu`          | both sides of the seam in one hand, and who keeps the tally          |
//! | `heat`         | whether a frame that is handed out is still in somebody's cache      |
//! | `tally`        | what CPUs have done so far                                           |
//! | `figures`      | counters and times to metrics, the same for all machines             |
//! | [`page_fault`] | bursts of frames up, then down (will-it-scale's page_fault1)         |
//! | [`kbuild`]     | compilers that fork, fault, write and exit                           |
//! | [`socket_pairs`] | blocks allocated on one CPU and freed on another (bw_unix)         |
//! | [`host`]       | the driver for threads over real memory                              |

pub(crate) mod allocator;
mod counts;
pub(crate) mod cpu;
mod figures;
pub(crate) mod heat;
pub mod host;
pub mod kbuild;
pub mod page_fault;
pub(crate) mod pipe;
pub mod socket_pairs;
pub(crate) mod tally;
pub(crate) mod world;

use framewright::{Tuning, frame::PAGEBLOCK_FRAMES};
use indexmap::IndexMap;

use allocator::Allocator;
use cpu::{Cpu, Stopped};
use kbuild::Kbuild;
use page_fault::PageFault;
use pipe::Pipes;
use socket_pairs::SocketPairs;
use world::World;

pub(crate) use counts::Counts;
pub(crate) use figures::Window;

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// Name of its column.
    pub label: String,
    /// Its tuning.
    pub tuning: Tuning,
    /// Those of its settings that the result shall name.
    pub settings: IndexMap<String, String>,
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Bursts of frames up, then down.
    PageFault(PageFault),
    /// Compilers that fork, fault, write and exit.
    Kbuild(Kbuild),
    /// Blocks allocated on one CPU and freed on another.
    SocketPairs(SocketPairs),
}

impl Workload {
    /// Its name on the command line.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::PageFault(_) => "page-fault",
            Self::Kbuild(_) => "kbuild",
            Self::SocketPairs(_) => "socket-pairs",
        }
    }

    /// Frames that `cpus` CPUs hold together at most.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        match self {
            Self::PageFault(work) => work.live_frames(cpus),
            Self::Kbuild(work) => work.live_frames(cpus),
            Self::SocketPairs(work) => work.live_frames(cpus),
        }
    }

    /// Frames of a memory in which `cpus` CPUs are never short: half as many again as they hold,
    /// and no less than 64 MiB, in whole pageblocks.
    #[must_use]
    pub fn ample_frames(&self, cpus: u16) -> u64 {
        const LEAST: u64 = 64 << 8;
        let live = self.live_frames(cpus);
        (live + live / 2).max(LEAST).next_multiple_of(PAGEBLOCK_FRAMES as u64)
    }

    /// What the work lacks to be any on `cpus` CPUs; `None` if it lacks nothing.
    pub(crate) fn lacks(&self, cpus: u16) -> Option<&'static str> {
        match self {
            Self::PageFault(work) => work.lacks(),
            Self::Kbuild(work) => work.lacks(),
            Self::SocketPairs(work) => work.lacks(cpus),
        }
    }

    /// Ways between CPUs that it needs.
    pub(crate) fn pipes(&self, cpus: u16) -> u16 {
        match self {
            Self::SocketPairs(work) => work.pairs_on(cpus),
            Self::PageFault(_) | Self::Kbuild(_) => 0,
        }
    }

    /// The part of one CPU, from its beginning to its end. Whatever stops it, the CPU holds no
    /// frame when it returns.
    pub(crate) fn run<A, W>(
        &self,
        cpu: &mut Cpu<'_, A, W>,
        pipes: Pipes<'_, A::Block>,
    ) -> Result<(), Stopped>
    where
        A: Allocator,
        W: World<A::Block>,
    {
        match self {
            Self::PageFault(work) => page_fault::run(work, cpu),
            Self::Kbuild(work) => kbuild::run(work, cpu),
            Self::SocketPairs(work) => socket_pairs::run(work, cpu, pipes),
        }
    }
}
