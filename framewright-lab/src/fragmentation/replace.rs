//! LLFree's benchmark of fragmentation: a memory of which a random share was freed, and then every
//! page that is allocated gets another frame, again and again.

use framewright_peers::Peer;

use super::{
    Experiment, SHARES, Setup, SetupError,
    cpu::{Cpu, Cpus},
    outcome::{self, Outcome},
};
use crate::report::{Point, Unit, figure::Figure};

/// A run of `replace`.
#[derive(Clone, Debug)]
pub struct Replace {
    /// How often every page is replaced.
    pub rounds: u32,
    /// Pages that are freed before as many are allocated.
    pub batch: usize,
}

impl Replace {
    /// Takes its share of all frames, as single pages.
    fn fill<P: Peer>(setup: &Setup, cpu: &mut Cpu<'_, P>) {
        while cpu.used() < setup.frames_per_thread() && Self::alloc(setup, cpu) {}
    }

    /// Frees `share` percent of its pages, at random.
    fn thin<P: Peer>(share: u8, cpu: &mut Cpu<'_, P>) {
        let stay = cpu.blocks() * usize::from(100 - share) / 100;
        while cpu.blocks() > stay {
            cpu.free_random();
        }
    }

    /// Replaces each page once, in random order. The first `left` pages have not been replaced yet; they
    /// are freed from the last to the first, and new pages take places behind them.
    fn round<P: Peer>(&self, setup: &Setup, cpu: &mut Cpu<'_, P>) {
        cpu.shuffle();
        let mut left = cpu.blocks();
        while left > 0 {
            let batch = self.batch.min(left);
            for index in (left - batch..left).rev() {
                cpu.free(index);
            }
            for _ in 0..batch {
                Self::alloc(setup, cpu);
            }
            left -= batch;
        }
    }

    fn alloc<P: Peer>(setup: &Setup, cpu: &mut Cpu<'_, P>) -> bool {
        let migratetype = setup.types.draw(0, cpu.random());
        cpu.alloc(0, migratetype)
    }
}

impl Experiment for Replace {
    const SHARE: &'static str = SHARES[1];
    const FIGURES: &'static [Figure<Outcome>] = &[
        Figure::higher("huge_frames_free", Unit::Count, |o| Some(o.course.last()?.1)),
        Figure::known("huge_frames_ideal", Unit::Count, outcome::ideal),
        Figure::higher("huge_frames_share_pct", Unit::Percent, |o| {
            Some(outcome::percent(o.course.last()?.1 as u64, o.ideal))
        }),
        Figure::lower("refused", Unit::Count, |o| Some(o.tally.refused_small as f64)),
        Figure::lower("ns_per_operation", Unit::Nanos, outcome::mean),
        Figure::lower("cpu_ns_per_operation", Unit::Nanos, outcome::cpu_mean),
    ];

    fn steps(&self) -> u64 {
        self.rounds.into()
    }

    fn check(&self, _setup: &Setup, _share: u8) -> Result<(), SetupError> {
        Ok(())
    }

    fn play<P: Peer + 'static>(
        &self,
        setup: &Setup,
        share: u8,
        cpus: &mut Cpus<P>,
        tell: &mut dyn FnMut(u64),
    ) -> Outcome {
        cpus.each(|cpu| Self::fill(setup, cpu));
        cpus.each(|cpu| Self::thin(share, cpu));
        cpus.clear_tally();
        let mut course = vec![Point(0.0, cpus.free_pageblocks() as f64)];
        for round in 1..=self.rounds {
            cpus.each(|cpu| self.round(setup, cpu));
            course.push(Point(f64::from(round), cpus.free_pageblocks() as f64));
            tell(round.into());
        }
        Outcome {
            ideal: setup.ideal(cpus.used()),
            allocatable: None,
            refused_huge: None,
            tally: cpus.tally(),
            course,
        }
    }
}
