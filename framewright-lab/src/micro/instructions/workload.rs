//! The work of the measured child.

use crate::micro::{calls::Blocks, framewright_row::Framewright};
use framewright_peers::{ListBuddy, Peer};
use std::{fmt, str::FromStr, time::Duration};

/// Frames of the zone: 1 GiB.
const FRAMES: u64 = 1 << 18;
/// CPUs that share it.
const CPUS: usize = 4;
/// Frames of a burst: 128 MiB.
pub(super) const BURST: usize = 32_768;
/// Under valgrind everything is slow; nothing here is timed.
const NO_LIMIT: Duration = Duration::from_secs(3600);

/// Whose instructions are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The library.
    Framewright,
    /// The classic list design.
    ListBuddy,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Framewright, Self::ListBuddy];

    /// Its label in tables.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Framewright => Framewright::NAME,
            Self::ListBuddy => ListBuddy::NAME,
        }
    }

    /// Patterns of the functions that it runs under the zone lock. They must not share what
    /// precedes a star other than the first: callgrind forgets one of such patterns.
    pub(super) fn under_lock(self) -> &'static [&'static str] {
        match self {
            Self::Framewright => &["*take_ordinary*", "*give_bundles*"],
            Self::ListBuddy => &["*list_buddy::bulk::refill*", "*list_buddy::bulk::release*"],
        }
    }
}

/// The order in which a burst is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeOrder {
    /// As it was allocated.
    Mapping,
    /// At random, from a fixed seed.
    Random,
}

impl FreeOrder {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Mapping, Self::Random];
}

/// What a child does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Whose code runs.
    pub subject: Subject,
    /// How bursts are freed.
    pub order: FreeOrder,
    /// How many bursts.
    pub cycles: u32,
}

impl Workload {
    /// Does it; the number of frames that crossed the zone lock.
    #[must_use]
    pub fn run(self) -> u64 {
        match self.subject {
            Subject::Framewright => {
                let peer = Framewright::new(FRAMES, CPUS);
                self.bursts(&peer);
                peer.zone_lock_frames()
            }
            Subject::ListBuddy => {
                let peer = ListBuddy::new(FRAMES, CPUS);
                self.bursts(&peer);
                peer.stats().zone.lock_frames
            }
        }
    }

    fn bursts<P: Peer>(self, peer: &P) {
        let mut worker = peer.worker(0);
        let mut random = fastrand::Rng::with_seed(1);
        let mut blocks = Blocks::<0>::with_capacity(BURST);
        for _ in 0..self.cycles {
            // Memory is never short here.
            let _ = blocks.fill(&mut worker, NO_LIMIT);
            if self.order == FreeOrder::Random {
                blocks.shuffle(&mut random);
            }
            blocks.empty(&mut worker, NO_LIMIT);
        }
    }
}

/// As one argument of a command line: `list-buddy/random/4`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            FreeOrder::Mapping => "mapping",
            FreeOrder::Random => "random",
        };
        write!(f, "{}/{order}/{}", self.subject.label(), self.cycles)
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("'{text}' is no workload: expected SUBJECT/mapping|random/CYCLES");
        let mut parts = text.split('/');
        let mut next = || parts.next().ok_or_else(unknown);
        let (subject, order, cycles) = (next()?, next()?, next()?);
        let subject = Subject::ALL.into_iter().find(|known| known.label() == subject);
        let order = match order {
            "mapping" => FreeOrder::Mapping,
            "random" => FreeOrder::Random,
            _ => return Err(unknown()),
        };
        let cycles = cycles.parse().map_err(|_| unknown())?;
        Ok(Self { subject: subject.ok_or_else(unknown)?, order, cycles })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_survives_the_command_line() {
        for subject in Subject::ALL {
            for order in FreeOrder::ALL {
                let workload = Workload { subject, order, cycles: 3 };
                assert_eq!(workload.to_string().parse(), Ok(workload));
            }
        }
        for bad in ["", "list-buddy", "list-buddy/mapping", "list-buddy/up/1", "x/mapping/1"] {
            assert!(bad.parse::<Workload>().unwrap_err().contains("expected"), "{bad}");
        }
    }

    #[test]
    fn bursts_cross_the_zone_lock() {
        for subject in Subject::ALL {
            let moved = Workload { subject, order: FreeOrder::Mapping, cycles: 2 }.run();
            assert!(moved > 2 * BURST as u64 / 2, "{subject:?}: {moved}");
        }
    }
}
