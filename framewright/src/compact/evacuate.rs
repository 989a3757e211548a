//! Moves what is in a stretch of a zone elsewhere. The stretch is withheld, so that what becomes free
//! in it stays free.

use super::{Compactor, compactor::Site};
use crate::{
    buddy::{Contents, WORDS},
    frame::{FrameRange, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn},
    migrate::{ClaimEnd, Claims, Effort, MigrateMode, Move, Targets},
    observe::{CompactEvent, Scanner},
    platform::{MOVES_PER_DRAIN, Platform},
    zone::{clip, pageblocks},
};

/// Rounds over a stretch: what was busy, or allocated while the first went on, has another chance.
const ROUNDS: u32 = 3;

/// Frames that are claimed at once where one that cannot be claimed ends it.
const CAREFUL: u32 = 32;

/// Pages that are asked for in the time that one takes to move.
const ASKED_PER_MOVE: u64 = 8;

/// Pages that move in the time that it takes to flush.
pub(super) const MOVES_PER_FLUSH: u64 = 16;

/// What it takes to move `pages` pages at once, in moves.
pub(super) const fn work_of(pages: u64) -> u64 {
    pages + pages / ASKED_PER_MOVE + MOVES_PER_FLUSH
}

/// What became of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Evacuated {
    /// Frames that are still allocated.
    pub(super) left: u64,
    /// Frames whose pages moved, or went by themselves.
    pub(super) moved: u64,
    /// Frames that were looked at for pages to claim.
    pub(super) asked: u64,
    /// Batches that moved, each with a flush.
    batches: u64,
    /// What lay elsewhere was brought home.
    pub(super) brought_home: bool,
    /// Why it ended before everything was tried, if it did.
    pub(super) cut_short: Option<CutShort>,
}

impl Evacuated {
    /// What it took, in moves.
    pub(super) fn work(&self) -> u64 {
        self.moved + self.asked.div_ceil(ASKED_PER_MOVE) + self.batches * MOVES_PER_FLUSH
    }

    /// The same and what came after it, together.
    pub(super) fn and_then(self, next: Self) -> Self {
        Self {
            moved: self.moved + next.moved,
            asked: self.asked + next.asked,
            batches: self.batches + next.batches,
            brought_home: self.brought_home || next.brought_home,
            ..next
        }
    }
}

/// Why moving ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CutShort {
    /// There is nothing to move to.
    NoRoom,
    /// Somebody has what has to be had first, or pages enough are claimed already.
    Contended,
    /// It has taken all that it may.
    Spent,
}

/// How a stretch is emptied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evacuation {
    pub(super) effort: Effort,
    /// Nothing moves unless all of it can be claimed: at once, or part by part where the workspace is too small.
    pub(super) all_or_none: bool,
    /// What is free and lies elsewhere than in the zone may be brought home, if anything is left.
    pub(super) may_bring_home: bool,
    /// It takes so many moves, or few more: then it ends.
    pub(super) allowed: u64,
    /// It is begun even if that will not do, and goes on another time.
    pub(super) in_part: bool,
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Empties frames `start` to `end` as far as the embedder moves what is in them.
    pub(super) fn evacuate(
        &mut self,
        site: Site<'c, 'm, P>,
        (start, end): (u32, u32),
        how: Evacuation,
        targets: &mut dyn Targets,
    ) -> Evacuated {
        let mut job = Job { site, start, end, how, count: 0, result: Evacuated::default() };
        for _ in 0..ROUNDS {
            let before = job.result.moved;
            self.round(&mut job, targets);
            targets.settle();
            job.result.left = used_in(site, start, end);
            if job.result.left == 0 || job.result.cut_short.is_some() {
                break;
            }
            if job.how.may_bring_home && self.holds_back(site) {
                // What lies on the lists of CPUs, in the depot, or parked behind a flush looks
                // allocated, and nobody claims it. While the stretch is withheld the depot takes in
                // nothing more.
                self.bring_home(site, &mut job.how);
                targets.drained();
                job.result.brought_home = true;
                job.result.left = used_in(site, start, end);
            } else if job.result.moved == before {
                break;
            }
            if job.result.work() >= job.how.allowed {
                // What is left was not tried in vain.
                job.result.cut_short = Some(CutShort::Spent);
            }
            if job.result.left == 0 || job.result.cut_short.is_some() {
                break;
            }
        }
        job.result
    }

    /// Whether frames that are free lie elsewhere than in the zone.
    pub(super) fn holds_back(&self, site: Site<'c, 'm, P>) -> bool {
        let memory = self.memory;
        memory.held_by_cpus() > 0 || site.at.zone.in_depot() > 0 || memory.tlb().deferred() > 0
    }

    /// Has it given back to the zone, once; it is paid for before anything else moves. Who does not wait
    /// interrupts no CPU for it, which would be one flush of everybody for each pageblock that cannot be
    /// emptied.
    pub(super) fn bring_home(&self, site: Site<'c, 'm, P>, how: &mut Evacuation) {
        how.may_bring_home = false;
        how.allowed = how.allowed.saturating_sub(MOVES_PER_DRAIN);
        let (memory, flusher) = (self.memory, self.flusher());
        let free = &mut |frames: &[Pfn]| memory.free_frames_to_zones(self.cpu, frames);
        match how.effort.mode {
            MigrateMode::Async => flusher.drain_flushed_frames(free),
            _ => flusher.drain_deferred_frames(free),
        };
        memory.drain_every_cpu(site.id);
    }

    /// Claims and moves everything once. Where it is all or nothing, what cannot be claimed at once is looked
    /// at to its end before any of it moves.
    fn round(&mut self, job: &mut Job<'c, 'm, P>, targets: &mut dyn Targets) {
        let mut looks = job.how.all_or_none;
        while self.pass(job, looks, targets) {
            looks = false;
        }
    }

    /// Claims everything, a batch after the other, and moves each; who only `looks` moves it if it is one.
    /// Whether it is more, and could be claimed.
    fn pass(&mut self, job: &mut Job<'c, 'm, P>, looks: bool, targets: &mut dyn Targets) -> bool {
        let (mut unclaimed, mut is_more) = (0, false);
        'all: for block in pageblocks(job.start, job.end) {
            let (first, last) = clip(block, job.start, job.end);
            let used = within(&contents(job.site, block).used, first, last);
            let mut at = first;
            while let Some((from, to)) = next_run(&used, block, at) {
                if self.moves().len() == job.count {
                    is_more = looks;
                    self.end_batch(job, looks, targets);
                }
                if job.result.cut_short.is_none() {
                    let claimed = self.claim_run(job, from, to);
                    at = claimed.reached;
                    unclaimed += u64::from(at - from).saturating_sub(claimed.frames);
                }
                if job.result.cut_short.is_some() || job.how.all_or_none && unclaimed > 0 {
                    break 'all;
                }
            }
        }
        let stays = job.how.all_or_none && unclaimed > 0;
        self.end_batch(job, stays || is_more, targets);
        is_more && !stays && job.result.cut_short.is_none()
    }

    /// Moves what is claimed, unless it `stays`.
    fn end_batch(&mut self, job: &mut Job<'c, 'm, P>, stays: bool, targets: &mut dyn Targets) {
        if stays {
            let count = core::mem::take(&mut job.count);
            self.abandon(0..count, targets);
        } else {
            self.move_claimed(job, targets);
        }
    }

    /// Claims pages in frames `from` to `to`, or the first of these, behind those that are claimed
    /// already.
    fn claim_run(&mut self, job: &mut Job<'c, 'm, P>, from: u32, to: u32) -> ClaimedRun {
        let mover = self.mover();
        let stop = if job.how.all_or_none { to.min(from + CAREFUL) } else { to };
        let range = range(job.site, from, stop);
        let mut claims = Claims::new(&mut self.moves()[job.count..]);
        let ended = mover.claim(range, &job.how.effort, &mut claims);
        if ended != ClaimEnd::Done {
            job.result.cut_short = Some(CutShort::Contended);
        }
        let behind = |pfn: Pfn| (pfn.get() - job.site.at.zone.base().get()) as u32;
        let is_full = claims.is_full();
        let last = claims.last_end().map_or(stop, behind);
        // A page may be larger than what was asked for.
        let reached = if is_full { last } else { last.max(stop) }.clamp(from + 1, to);
        let (first, claimed) = (job.count, claims.len());
        job.count += claimed;
        let claimed = self.moves()[first..first + claimed].iter();
        let frames = claimed.map(|at| at.order().frames()).sum();
        job.site.trace(|| CompactEvent::IsolatePages {
            by: Scanner::Migrate,
            range: self::range(job.site, from, reached),
            scanned: u64::from(reached - from),
            taken: frames,
        });
        job.site.hints.counters.compact_migrate_scanned.add(u64::from(reached - from));
        job.result.asked += u64::from(reached - from);
        ClaimedRun { reached, frames }
    }

    /// Ends the claims on pages that there is no time to move, but for one; how many are left.
    fn keep_what_is_paid(&mut self, job: &mut Job<'c, 'm, P>, targets: &mut dyn Targets) -> usize {
        let claimed = core::mem::take(&mut job.count);
        let mut left = job.how.allowed.saturating_sub(job.result.work() + MOVES_PER_FLUSH);
        let pays = |at: &&Move| {
            let pays = left > 0;
            left = left.saturating_sub(at.order().frames());
            pays
        };
        let kept = self.moves()[..claimed].iter().take_while(pays).count().max(claimed.min(1));
        if kept < claimed {
            self.abandon(kept..claimed, targets);
            job.result.cut_short = Some(CutShort::Spent);
        }
        kept
    }

    fn move_claimed(&mut self, job: &mut Job<'c, 'm, P>, targets: &mut dyn Targets) {
        // Who does not begin what it cannot pay for does not leave off what it has begun either.
        let claimed = match job.how.in_part {
            true => self.keep_what_is_paid(job, targets),
            false => core::mem::take(&mut job.count),
        };
        if claimed == 0 {
            return;
        }
        let moved = self.migrate(job.site, claimed, &job.how.effort, targets);
        let all = moved.moved + moved.gone + moved.failed;
        job.site.hints.counters.compact_isolated.add(all);
        job.result.moved += moved.moved + moved.gone;
        job.result.batches += 1;
        if moved.lacked_targets {
            job.result.cut_short = Some(CutShort::NoRoom);
        }
    }
}

/// A stretch that is being emptied.
struct Job<'s, 'm, P: Platform> {
    site: Site<'s, 'm, P>,
    start: u32,
    end: u32,
    how: Evacuation,
    /// Pages that are claimed.
    count: usize,
    result: Evacuated,
}

/// What claiming a run came to.
struct ClaimedRun {
    /// Up to where.
    reached: u32,
    /// Frames that are claimed.
    frames: u64,
}

/// What a pageblock holds now.
pub(super) fn contents<P: Platform>(site: Site<'_, '_, P>, block: u32) -> Contents {
    site.hints.counters.compact_headers.add(1);
    site.at.zone.contents(site.at.platform, block)
}

/// Allocated frames from `start` to `end`.
pub(super) fn used_in<P: Platform>(site: Site<'_, '_, P>, start: u32, end: u32) -> u64 {
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
