//! Moves what is in a stretch of a zone elsewhere. The stretch is withheld, so that what becomes free
//! in it stays free.

use super::{Compactor, compactor::Site};
use crate::{
    buddy::{Contents, WORDS},
    frame::{FrameRange, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER},
    migrate::{ClaimEnd, Claims, Effort, Targets},
    platform::Platform,
    zone::{clip, pageblocks},
};

/// Rounds over a stretch: what was busy, or allocated while the first went on, has another chance.
const ROUNDS: u32 = 3;

/// What became of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Evacuated {
    /// Frames that are still allocated.
    pub(super) left: u64,
    /// Frames whose pages moved, or went by themselves.
    pub(super) moved: u64,
    /// Why it ended before everything was tried, if it did.
    pub(super) cut_short: Option<CutShort>,
}

/// Why moving ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CutShort {
    /// There is nothing to move to.
    NoRoom,
    /// Somebody has what has to be had first, or pages enough are claimed already.
    Contended,
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Empties frames `start` to `end` as far as the embedder moves what is in them.
    pub(super) fn evacuate(
        &mut self,
        site: Site<'c, 'm, P>,
        (start, end): (u32, u32),
        effort: &Effort,
        targets: &mut dyn Targets,
    ) -> Evacuated {
        let mut result = Evacuated { left: 0, moved: 0, cut_short: None };
        let mut drained = false;
        for _ in 0..ROUNDS {
            let moved = self.round(site, (start, end), effort, targets, &mut result);
            targets.settle();
            result.left = used_in(site, start, end);
            if result.left == 0 || result.cut_short.is_some() {
                break;
            }
            if !drained && self.memory.held_by_cpus() > 0 {
                // What lies on the lists of CPUs looks allocated.
                self.memory.drain_every_cpu(site.id);
                drained = true;
                result.left = used_in(site, start, end);
            } else if moved == 0 {
                break;
            }
            if result.left == 0 {
                break;
            }
        }
        result
    }

    /// Claims and moves everything once; how many frames that were.
    fn round(
        &mut self,
        site: Site<'c, 'm, P>,
        (start, end): (u32, u32),
        effort: &Effort,
        targets: &mut dyn Targets,
        result: &mut Evacuated,
    ) -> u64 {
        let before = result.moved;
        let mut count = 0;
        for block in pageblocks(start, end) {
            let (first, last) = clip(block, start, end);
            let used = within(&contents(site, block).used, first, last);
            let mut at = first;
            while let Some((from, to)) = next_run(&used, block, at) {
                at = to;
                let range = range(site, from, to);
                let (ended, stop, claimed) = self.claim(range, count, effort);
                count += claimed;
                if ended == ClaimEnd::Contended || ended == ClaimEnd::TooMany {
                    result.cut_short = Some(CutShort::Contended);
                    break;
                }
                if count == self.moves().len() {
                    let next = stop.map(|end| (end.get() - site.at.zone.base().get()) as u32);
                    at = next.unwrap_or(to).max(from + 1);
                    self.move_claimed(site, &mut count, effort, targets, result);
                }
                if result.cut_short.is_some() {
                    break;
                }
            }
            if result.cut_short.is_some() {
                break;
            }
        }
        self.move_claimed(site, &mut count, effort, targets, result);
        result.moved - before
    }

    /// Claims pages in `range` behind the first `count` claimed ones: how that ended, where, and how
    /// many there are.
    fn claim(
        &mut self,
        range: FrameRange,
        count: usize,
        effort: &Effort,
    ) -> (ClaimEnd, Option<crate::frame::Pfn>, usize) {
        let mover = self.mover();
        let mut claims = Claims::new(&mut self.moves()[count..]);
        let ended = mover.claim(range, effort, &mut claims);
        let claimed = claims.len();
        let last = claimed.checked_sub(1).map(|last| self.moves()[count + last]);
        (ended, last.map(|last| last.from().offset(last.order().frames())), claimed)
    }

    fn move_claimed(
        &mut self,
        site: Site<'c, 'm, P>,
        count: &mut usize,
        effort: &Effort,
        targets: &mut dyn Targets,
        result: &mut Evacuated,
    ) {
        let claimed = core::mem::take(count);
        if claimed == 0 {
            return;
        }
        let moved = self.migrate(site, claimed, effort, targets);
        let all = moved.moved + moved.gone + moved.failed;
        site.hints.counters.compact_isolated.add(all);
        result.moved += moved.moved + moved.gone;
        if moved.lacked_targets {
            result.cut_short = Some(CutShort::NoRoom);
        }
    }
}

/// What a pageblock holds now.
pub(super) fn contents<P: Platform>(site: Site<'_, '_, P>, block: u32) -> Contents {
    site.hints.counters.compact_headers.add(1);
    site.at.zone.with(site.at.platform, |buddy| buddy.contents(block))
}

/// Allocated frames from `start` to `end`.
fn used_in<P: Platform>(site: Site<'_, '_, P>, start: u32, end: u32) -> u64 {
    let used = |block| {
        let (first, last) = clip(block, start, end);
        let used = within(&contents(site, block).used, first, last);
        used.iter().map(|word| u64::from(word.count_ones())).sum::<u64>()
    };
    pageblocks(start, end).map(used).sum()
}

/// Frames `from` to `to` of a zone.
pub(super) fn range<P: Platform>(site: Site<'_, '_, P>, from: u32, to: u32) -> FrameRange {
    let zone = site.at.zone;
    FrameRange::new(zone.pfn(from), zone.pfn(to)).unwrap_or(FrameRange::EMPTY)
}

/// The bits of a pageblock's map that stand for frames `first` to `last`, which lie in it.
pub(super) fn within(map: &[u64; WORDS], first: u32, last: u32) -> [u64; WORDS] {
    let mut kept = [0; WORDS];
    for (i, word) in kept.iter_mut().enumerate() {
        let start = (first & !(PAGEBLOCK_FRAMES as u32 - 1)) + 64 * i as u32;
        let low = first.saturating_sub(start);
        let high = last.saturating_sub(start).min(64);
        if low < high {
            *word = map[i] & (!0 << low) & (!0 >> (64 - high));
        }
    }
    kept
}

/// The first run of set bits in the map of pageblock `block` at or behind frame `at`.
pub(super) fn next_run(map: &[u64; WORDS], block: u32, at: u32) -> Option<(u32, u32)> {
    let first = block << PAGEBLOCK_ORDER;
    let from = find(map, at.checked_sub(first)?, true)?;
    let to = find(map, from, false).unwrap_or(PAGEBLOCK_FRAMES as u32);
    Some((first + from, first + to))
}

/// The first bit at or behind `from` that is set or not.
fn find(map: &[u64; WORDS], from: u32, set: bool) -> Option<u32> {
    let mut at = from;
    while at < PAGEBLOCK_FRAMES as u32 {
        let word = if set { map[at as usize / 64] } else { !map[at as usize / 64] } >> (at % 64);
        if word != 0 {
            return Some(at + word.trailing_zeros());
        }
        at = (at | 63) + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_off_a_map() {
        let mut map = [0u64; WORDS];
        map[0] = 0b1_0110;
        map[1] = 1 << 63;
        map[2] = 0b11;
        map[7] = 1 << 63;
        let mut at = 512;
        let mut runs = std::vec::Vec::new();
        while let Some(run) = next_run(&map, 1, at) {
            runs.push(run);
            at = run.1;
        }
        assert_eq!(runs, [(513, 515), (516, 517), (639, 642), (1023, 1024)]);
    }

    #[test]
    fn a_map_is_cut_at_frames() {
        let kept = within(&[!0; WORDS], 512 + 3, 512 + 130);
        assert_eq!(kept[..3], [!0 << 3, !0, 0b11]);
        assert_eq!(kept[3..], [0; 5]);
        assert_eq!(within(&[!0; WORDS], 0, 512), [!0; WORDS]);
    }
}
