//! The placement of blocks: huge pages survive random allocations and frees, and form while pages
//! are replaced.
#![cfg(not(miri))]

use crate::support::machine::{Machine, Metadata, cpu};
use framewright::{
    Block, Config, CpuToken, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    observe::DrainReason,
};
use framewright_fakes::{Contention, leaked};

const PAGEBLOCKS: u64 = 128;
const FRAMES: u64 = PAGEBLOCKS * 512;
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

fn with_settings(settings: &[(&str, &str)], test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    config.tuning.set("zone.min_free", "0").unwrap();
    config.tuning.set("zone.watermark_scale", "1").unwrap();
    settings.iter().for_each(|(key, value)| config.tuning.set(key, value).unwrap());
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    test(&memory);
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), FRAMES, "frames did not come back");
}

/// Allocated frames of each pageblock, counted by the test itself.
struct Census(Vec<u64>);

impl Census {
    fn new() -> Self {
        Self(vec![0; PAGEBLOCKS as usize])
    }

    fn of(&mut self, block: &Block<'_>) -> (&mut u64, u64) {
        (&mut self.0[(block.pfn().get() / 512) as usize], block.order().frames())
    }

    fn take(&mut self, block: &Block<'_>) {
        let (used, frames) = self.of(block);
        *used += frames;
        assert!(*used <= 512, "a frame was allocated twice");
    }

    fn give(&mut self, block: &Block<'_>) {
        let (used, frames) = self.of(block);
        *used -= frames;
    }

    /// Pageblocks without allocated frames.
    fn free(&self) -> u64 {
        self.0.iter().filter(|&&used| used == 0).count() as u64
    }
}

type Token<'a, 'm> = CpuToken<'a, 'm, Machine>;

/// Allocates all memory as pages, frees a random share of them, and replaces each of the others `rounds` times, `batch`
/// at a time. Returns the number of pageblocks without allocated frames.
fn replace(token: &mut Token<'_, '_>, free_pct: usize, rounds: usize, batch: usize) -> u64 {
    let mut random = fastrand::Rng::with_seed(7);
    let mut census = Census::new();
    let mut pages: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
    pages.iter().for_each(|page| census.take(page));
    random.shuffle(&mut pages);
    for page in pages.split_off(pages.len() * (100 - free_pct) / 100) {
        census.give(&page);
        token.free(page).unwrap();
    }
    for _ in 0..rounds {
        random.shuffle(&mut pages);
        let mut replaced = Vec::with_capacity(pages.len());
        while !pages.is_empty() {
            let freed = pages.split_off(pages.len().saturating_sub(batch));
            let count = freed.len();
            for page in freed {
                census.give(&page);
                token.free(page).unwrap();
            }
            for _ in 0..count {
                let page = token.alloc(PAGE).unwrap();
                census.take(&page);
                replaced.push(page);
            }
        }
        pages = replaced;
    }
    let free = census.free();
    pages.into_iter().for_each(|page| token.free(page).unwrap());
    free
}

#[test]
fn huge_pages_form_while_pages_are_replaced() {
    for (free_pct, batch) in [(50, 1), (50, 64), (50, 1024), (90, 1), (20, 1)] {
        with_settings(&[], |memory| {
            let free = replace(&mut memory.cpu(cpu(0)).unwrap(), free_pct, 4, batch);
            let ideal = PAGEBLOCKS * free_pct as u64 / 100;
            assert!(
                free * 100 >= ideal * 90,
                "{free_pct} % free, {batch} at a time: {free} of {ideal} huge pages"
            );
        });
    }
}

/// Negative control: if no pageblock is emptied (`zone.emptying_above=512`), at most two huge pages
/// form.
#[test]
fn without_emptying_pageblocks_the_lists_reuse_every_page() {
    with_settings(&[("zone.emptying_above", "512")], |memory| {
        let free = replace(&mut memory.cpu(cpu(0)).unwrap(), 50, 4, 1);
        assert!(free <= 2, "{free} huge pages");
    });
}

/// CPU 0 frees half of a pageblock, and CPU 1 the other half, which reaches the zone. While CPU 0 frees pages of full
/// pageblocks, its half returns to the zone, too, although the CPU may hold more frames.
#[test]
fn frames_return_if_their_pageblock_becomes_sparse_while_they_are_on_lists() {
    for (sweep_blocks, held) in [("8", 1024), ("0", 256 + 1024)] {
        let settings = [
            ("pcp.sweep_blocks", sweep_blocks),
            ("pcp.bundle_slots", "64"),
            ("pcp.high_fraction", "8"),
        ];
        with_settings(&settings, |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let mut other = memory.cpu(cpu(1)).unwrap();
            let mut pages: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
            pages.sort_unstable_by_key(Block::pfn);
            // The words of the sixth pageblock have slots behind the first ones.
            let mut pages = pages.split_off(5 * 512).into_iter().chain(pages);
            pages.by_ref().take(256).for_each(|page| token.free(page).unwrap());
            pages.by_ref().take(256).for_each(|page| other.free(page).unwrap());
            other.drain();
            pages.by_ref().take(1024).for_each(|page| token.free(page).unwrap());
            assert_eq!(memory.held_by_cpus(), held, "pcp.sweep_blocks={sweep_blocks}");
            pages.for_each(|page| token.free(page).unwrap());
        });
    }
}

/// Random allocations and frees of orders 0 to 4, and a few huge pages, at `percent` of memory in use. Returns the huge
/// pages that can be allocated at the end, and the number that the free memory could have.
fn churn(token: &mut Token<'_, '_>, percent: u64, huge_one_in: u16) -> (u64, u64) {
    let mut random = fastrand::Rng::with_seed(11);
    let most = FRAMES * percent / 100;
    let (mut blocks, mut used) = (Vec::new(), 0);
    let draw = |random: &mut fastrand::Rng| match random.u16(..huge_one_in) {
        0 => Order::PAGEBLOCK,
        _ => Order::new((random.u8(..) | 16).trailing_zeros() as u8).unwrap(),
    };
    let mut next = draw(&mut random);
    for _ in 0..400_000 {
        if used + next.frames() <= most && random.u8(..8) < 5 {
            if let Ok(block) = token.alloc(Request::new(next, MigrateType::Movable)) {
                used += next.frames();
                blocks.push(block);
            }
            next = draw(&mut random);
        } else if !blocks.is_empty() {
            let block = blocks.swap_remove(random.usize(..blocks.len()));
            used -= block.order().frames();
            token.free(block).unwrap();
        }
    }
    let ideal = (FRAMES - used) / 512;
    let huge = Request::new(Order::PAGEBLOCK, MigrateType::Movable);
    let huge: Vec<_> = std::iter::from_fn(|| token.alloc(huge).ok()).collect();
    let formed = huge.len() as u64;
    blocks.into_iter().chain(huge).for_each(|block| token.free(block).unwrap());
    (formed, ideal)
}

#[test]
fn huge_pages_survive_churn() {
    for (percent, huge_one_in) in [(70, 512), (80, 512), (80, u16::MAX)] {
        with_settings(&[], |memory| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let (formed, ideal) = churn(&mut token, percent, huge_one_in);
            assert!(
                formed * 100 >= ideal * 55,
                "{percent} % in use: {formed} of {ideal} huge pages are left"
            );
        });
    }
}

/// Frames that wait to return to the zone count as held by their CPU, and a drain returns them.
#[test]
fn frames_of_emptying_pageblocks_are_counted_and_drained() {
    with_settings(&[], |memory| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let mut pages: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        fastrand::Rng::with_seed(3).shuffle(&mut pages);
        let mut freed = 0;
        while let Some(page) = pages.pop() {
            token.free(page).unwrap();
            freed += 1;
            let held = memory.held_by_cpus();
            assert_eq!(memory.free() + held, freed, "frames are neither free nor held");
        }
        token.drain();
        assert_eq!((memory.held_by_cpus(), memory.free()), (0, FRAMES));
        assert!(memory.stats().drains[DrainReason::Emptying as usize] > 0);
    });
}

/// If many CPUs share the zone, frames of emptying pageblocks are reused while its lock is held.
#[test]
fn many_cpus_do_not_wait_for_the_zone_lock_to_make_pageblocks_empty() {
    let returns = |cpus, contention| {
        let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
        let memory = leaked(Machine::default(), &Config::new(&map, cpus));
        let mut token = memory.cpu(cpu(0)).unwrap();
        let mut pages: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        fastrand::Rng::with_seed(3).shuffle(&mut pages);
        let half = pages.split_off(pages.len() / 2);
        half.into_iter().for_each(|page| token.free(page).unwrap());
        let drains = || memory.stats().drains[DrainReason::Emptying as usize];
        let before = drains();
        memory.platform().set_contention(contention);
        for page in &mut pages {
            let new = token.alloc(PAGE).unwrap();
            token.free(std::mem::replace(page, new)).unwrap();
        }
        let returned = drains() - before;
        pages.into_iter().for_each(|page| token.free(page).unwrap());
        memory.check().unwrap();
        returned > 0
    };
    assert!(returns(9, Contention::None) && !returns(9, Contention::All));
    assert!(returns(8, Contention::None) && returns(8, Contention::All));
}
