//! Allocation and free: the lists of a CPU first, then the zone.

use super::{
    BulkFree, DrainReason, ListTurns, LockName, Machine, MigrateType, ORDERS, Pressure, Sizing,
    Stats, Threads, Tuning,
    bulk::{self, FromTails, InTurn, Prechosen},
    fallback::Phase,
    lists::{CPU_LISTS, List, Mark, PAGEBLOCK_ORDER, Pages},
    lock::Lock,
    pcp::{self, HOLDING_LISTS, Pcp, is_movable, list_index},
    zone::Zone,
};
use crate::Metadata;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A free that was refused, because no block of this order is allocated at this frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadFree {
    /// The frame that was to be freed.
    pub frame: u64,
    /// The claimed order.
    pub order: u8,
}

impl core::fmt::Display for BadFree {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "no block of order {} is allocated at frame {}", self.order, self.frame)
    }
}

impl std::error::Error for BadFree {}

/// The system refused the memory of the descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// The requested size.
    pub bytes: usize,
}

impl core::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mib = self.bytes.div_ceil(1 << 20);
        write!(f, "the system refused {mib} MiB of memory for the descriptors of list-buddy; ")?;
        write!(f, "ask for less, or free some")
    }
}

impl std::error::Error for OutOfMemory {}

/// The classic page allocator over one zone of frame numbers.
pub struct ListBuddy<M: Machine = Threads> {
    pub(super) pages: Pages<M>,
    pub(super) zone: M::Lock<Zone>,
    pub(super) cpus: Vec<M::Lock<Pcp>>,
    bulk_free: BulkFree,
    list_turns: ListTurns,
    prefetch_buddies: bool,
    below_high: AtomicBool,
    reclaim_active: AtomicBool,
}

impl ListBuddy {
    /// An allocator for real threads, with a zone of `frames` frames.
    ///
    /// # Panics
    ///
    /// If frame numbers do not fit in 31 bits, or the system refuses the memory.
    #[must_use]
    pub fn with_tuning(frames: u64, cpus: usize, tuning: &Tuning) -> Self {
        Self::try_with_tuning(frames, cpus, tuning).unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// As [`with_tuning`](Self::with_tuning).
    ///
    /// # Errors
    ///
    /// The system refuses the memory.
    ///
    /// # Panics
    ///
    /// If frame numbers do not fit in 31 bits.
    pub fn try_with_tuning(frames: u64, cpus: usize, tuning: &Tuning) -> Result<Self, OutOfMemory> {
        let buddy = Self::on(Threads, frames, cpus, tuning)?;
        // A benchmark of the allocator must not include the page faults of its first accesses.
        buddy.pages.populate();
        Ok(buddy)
    }
}

impl<M: Machine> ListBuddy<M> {
    /// On a machine that the caller provides.
    ///
    /// # Errors
    ///
    /// The system refuses the memory.
    ///
    /// # Panics
    ///
    /// If frame numbers do not fit in 31 bits.
    pub fn on(machine: M, frames: u64, cpus: usize, tuning: &Tuning) -> Result<Self, OutOfMemory> {
        Self::build(machine, [frames; 2], cpus, tuning, Zone::new)
    }

    /// An allocator whose zone spans `frames` frames and manages `managed` of them. `zone` creates the
    /// zone. Panics if frame numbers do not fit in 31 bits.
    pub(super) fn build(
        machine: M,
        [frames, managed]: [u64; 2],
        cpus: usize,
        tuning: &Tuning,
        zone: impl FnOnce(&Pages<M>) -> Zone,
    ) -> Result<Self, OutOfMemory> {
        assert!(frames < 1 << 31, "frame numbers of list-buddy have 31 bits");
        let pages = Pages::new(machine, frames as u32, cpus)?;
        let sizing = Sizing::new(managed as u32, cpus, tuning);
        let lists = |cpu| pages.machine().new_lock(LockName::Cpu(cpu), Pcp::new(sizing, tuning));
        Ok(Self {
            cpus: (0..cpus).map(lists).collect(),
            zone: pages.machine().new_lock(LockName::Zone, zone(&pages)),
            pages,
            bulk_free: tuning.bulk_free,
            list_turns: tuning.list_turns,
            prefetch_buddies: tuning.prefetch_buddies,
            below_high: AtomicBool::new(false),
            reclaim_active: AtomicBool::new(false),
        })
    }

    /// Allocates 2^`order` frames on behalf of `cpu`. Returns the number of the first, or `None` if
    /// there is no such block even with all CPU lists empty.
    #[inline]
    pub fn alloc(&self, cpu: usize, order: u8, migratetype: MigrateType) -> Option<u64> {
        let listed = list_index(order, migratetype).and_then(|index| {
            self.cpus[cpu].try_with(|pcp| self.pop(cpu, pcp, index, order, migratetype))?
        });
        let frame = match listed {
            Some(frame) => frame,
            None => self.alloc_from_zone(order, migratetype)?,
        };
        self.pages.set_mark(frame, Mark::Used(order, migratetype));
        Some(u64::from(frame))
    }

    /// Frees the 2^`order` frames from `frame` on behalf of `cpu`.
    ///
    /// # Errors
    ///
    /// If no block of this order is allocated there; nothing has changed then.
    #[inline]
    pub fn free(&self, cpu: usize, frame: u64, order: u8) -> Result<(), BadFree> {
        let bad = BadFree { frame, order };
        if frame >= u64::from(self.pages.frames()) {
            return Err(bad);
        }
        let frame = frame as u32;
        match self.pages.mark(frame) {
            Mark::Used(actual, _) if actual == order => {}
            _ => return Err(bad),
        }
        let done = list_index(order, self.pages.pageblock_type(frame))
            .and_then(|index| self.cpus[cpu].try_with(|pcp| self.push(cpu, pcp, index, frame)));
        if done.is_none() {
            self.free_to_zone(frame, order);
        }
        Ok(())
    }

    /// Announces the free of a frame: see [`Machine::expect`].
    #[inline]
    pub fn expect(&self, frame: u64) {
        if frame < u64::from(self.pages.frames()) {
            self.pages.expect(frame as u32);
        }
    }

    /// Empties the lists of one CPU. Any CPU may call it.
    pub fn drain_cpu(&self, cpu: usize) {
        let mut held = true;
        while held {
            held = self.cpus[cpu].with(|pcp| {
                let frames = pcp.scaled_batch();
                self.release(cpu, pcp, 0, frames, DrainReason::Emptied);
                pcp.count > 0
            });
        }
    }

    /// Empties the lists of all CPUs.
    pub fn drain_all(&self) {
        (0..self.cpus.len()).for_each(|cpu| self.drain_cpu(cpu));
    }

    /// Trims a CPU's lists. To be called about once a second.
    pub fn decay(&self, cpu: usize) {
        let mut left = self.cpus[cpu].with(Pcp::decay);
        while left > 0 {
            left = self.cpus[cpu].with(|pcp| {
                let released = self.release(cpu, pcp, 0, left.min(pcp.batch()), DrainReason::Decay);
                if pcp.count == 0 { 0 } else { left.saturating_sub(released) }
            });
        }
    }

    /// Sets the pressure on memory, which this allocator does not determine itself.
    pub fn set_pressure(&self, pressure: Pressure) {
        self.below_high.store(pressure.below_high, Relaxed);
        self.reclaim_active.store(pressure.reclaim_active, Relaxed);
    }

    /// All counts, summed over CPUs.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { zone: self.zone.with(|zone| zone.stats), ..Stats::default() };
        for cpu in &self.cpus {
            stats.cpus.add(&cpu.with(|pcp| pcp.stats));
        }
        stats
    }

    /// Frames on the lists of one CPU.
    pub fn held(&self, cpu: usize) -> u32 {
        self.cpus[cpu].with(|pcp| pcp.count)
    }

    /// Free frames of the zone, without those on CPU lists.
    pub fn free_frames(&self) -> u32 {
        self.zone.with(|zone| zone.free())
    }

    /// Free blocks of the zone per order.
    pub fn free_blocks(&self) -> [u32; ORDERS] {
        self.zone.with(|zone| zone.free_blocks())
    }

    /// Free blocks of the zone per order, and frames on CPU lists; `None` while a lock is held.
    pub fn try_counts(&self) -> Option<([u32; ORDERS], u32)> {
        let held = |cpu: &M::Lock<Pcp>| cpu.try_with(|pcp| pcp.count);
        let held = self.cpus.iter().map(held).sum::<Option<u32>>()?;
        Some((self.zone.try_with(|zone| zone.free_blocks())?, held))
    }

    /// Number of CPUs with lists.
    pub fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// Bytes of descriptors, list heads and pageblock types.
    pub(super) fn metadata_size(&self) -> Metadata {
        Metadata {
            bytes: self.pages.bytes() + size_of::<M::Lock<Zone>>(),
            how: "64 bytes per frame, list heads, pageblock types",
        }
    }

    /// Bytes of all CPUs' lists: the state of each CPU with its lock, and the list heads.
    pub(super) fn list_bytes(&self) -> usize {
        self.cpus.len() * (size_of::<M::Lock<Pcp>>() + CPU_LISTS * 64)
    }

    /// Takes a block off a list of the CPU, which is refilled if it is empty.
    #[inline]
    fn pop(
        &self,
        cpu: usize,
        pcp: &mut Pcp,
        index: usize,
        order: u8,
        migratetype: MigrateType,
    ) -> Option<u32> {
        pcp.note_alloc();
        let list = self.pages.cpu_list(cpu, index);
        let frame = match self.pages.first(list) {
            Some(frame) => frame,
            None => {
                self.refill(pcp, list, order, migratetype);
                self.pages.first(list)?
            }
        };
        self.pages.unlink(frame);
        pcp.count -= 1 << order;
        pcp.stats.allocs += 1;
        Some(frame)
    }

    #[cold]
    fn refill(&self, pcp: &mut Pcp, list: List, order: u8, migratetype: MigrateType) {
        let blocks = pcp.refill_blocks(order, self.pressure());
        let got = self.zone.with(|zone| {
            let got = bulk::refill(zone, &self.pages, list, order, migratetype, blocks);
            self.did(zone);
            got
        });
        pcp.count += got << order;
        pcp.stats.refills += 1;
        pcp.stats.refilled_frames += u64::from(got) << order;
    }

    /// Puts a block on a list of the CPU. Full lists return blocks to the zone.
    #[inline]
    fn push(&self, cpu: usize, pcp: &mut Pcp, index: usize, frame: u32) {
        let order = pcp::list_order(index);
        self.pages.set_mark(frame, Mark::Listed(order));
        self.pages.push_head(self.pages.cpu_list(cpu, index), frame);
        pcp.stats.frees += 1;
        if let Some(drain) = pcp.note_free(order, self.pressure()) {
            self.release(cpu, pcp, index, drain.frames, drain.reason);
        }
    }

    /// Frees about `frames` frames of a CPU's lists to the zone. Returns the number of frames.
    #[cold]
    fn release(
        &self,
        cpu: usize,
        pcp: &mut Pcp,
        start: usize,
        frames: u32,
        reason: DrainReason,
    ) -> u32 {
        if pcp.count == 0 {
            return 0;
        }
        let mut others = (0..HOLDING_LISTS).filter(|&list| !is_movable(list));
        let is_mixed = others.any(|list| !self.pages.is_empty(self.pages.cpu_list(cpu, list)));
        pcp.stats.mixed_drains += u64::from(is_mixed);
        let tails = FromTails::new(cpu, start % HOLDING_LISTS, frames, pcp.count);
        let released = match self.list_turns {
            ListTurns::OneAfterAnother => self.select_and_give(cpu, tails),
            ListTurns::RoundRobin => self.select_and_give(cpu, InTurn::new(tails)),
        };
        pcp.count -= released;
        pcp.stats.drains[reason as usize] += 1;
        pcp.stats.drained_frames += u64::from(released);
        released
    }

    #[inline]
    fn select_and_give(&self, cpu: usize, choice: impl bulk::Selection) -> u32 {
        match self.bulk_free {
            BulkFree::SelectUnderLock => self.give(choice),
            BulkFree::SelectBeforeLock => {
                let chosen = Prechosen::new(&self.pages, cpu, choice, self.prefetch_buddies);
                self.pages.machine().work(LockName::Cpu(cpu), chosen.work());
                self.give(chosen)
            }
        }
    }

    fn give(&self, chosen: impl bulk::Selection) -> u32 {
        self.zone.with(|zone| {
            let released = bulk::release(zone, &self.pages, chosen);
            self.did(zone);
            released
        })
    }

    /// Allocates without the lists. If that fails, empties all lists and tries once more.
    #[cold]
    fn alloc_from_zone(&self, order: u8, migratetype: MigrateType) -> Option<u32> {
        self.take_one(order, migratetype).or_else(|| {
            self.drain_all();
            self.take_one(order, migratetype)
        })
    }

    /// Reports to the machine the work that was done under the zone lock.
    fn did(&self, zone: &mut Zone) {
        self.pages.machine().work(LockName::Zone, bulk::work(zone));
    }

    fn take_one(&self, order: u8, migratetype: MigrateType) -> Option<u32> {
        self.zone.with(|zone| {
            zone.stats.lock_acquisitions += 1;
            let frame = zone.take(&self.pages, order, migratetype, &mut Phase::default())?;
            zone.stats.direct_allocs += 1;
            zone.stats.lock_frames += 1 << order;
            self.did(zone);
            Some(frame)
        })
    }

    /// Frees without the lists, in pieces of at most a pageblock, each with its own type.
    #[cold]
    fn free_to_zone(&self, frame: u32, order: u8) {
        let piece = order.min(PAGEBLOCK_ORDER);
        self.zone.with(|zone| {
            zone.stats.lock_acquisitions += 1;
            zone.stats.direct_frees += 1;
            zone.stats.lock_frames += 1 << order;
            for start in (frame..frame + (1 << order)).step_by(1 << piece) {
                zone.give(&self.pages, start, piece);
            }
            self.did(zone);
        });
    }

    #[inline]
    fn pressure(&self) -> Pressure {
        Pressure {
            below_high: self.below_high.load(Relaxed),
            reclaim_active: self.reclaim_active.load(Relaxed),
        }
    }
}
