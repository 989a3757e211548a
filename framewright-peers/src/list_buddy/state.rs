//! Initial states: an allocator whose frames are all in use at first, and the operations that give
//! it free blocks, allocated blocks and CPU lists of chosen frames.

use super::{
    ListBuddy, Lock, Machine, MigrateType, OutOfMemory, Tuning,
    lists::{Mark, PAGEBLOCK_ORDER},
    pcp::list_index,
    zone::Zone,
};

impl<M: Machine> ListBuddy<M> {
    /// An allocator that spans `frames` frames, none of them free. It manages `managed` frames,
    /// from which the sizes of lists are computed; the caller gives it these frames with
    /// [`set_free`](Self::set_free) and [`set_used`](Self::set_used). All pageblocks are movable.
    ///
    /// # Errors
    ///
    /// The system refuses the memory.
    ///
    /// # Panics
    ///
    /// If frame numbers do not fit in 31 bits.
    pub fn in_use(
        machine: M,
        frames: u64,
        managed: u64,
        cpus: usize,
        tuning: &Tuning,
    ) -> Result<Self, OutOfMemory> {
        Self::build(machine, [frames, managed.min(frames)], cpus, tuning, |_| Zone::empty())
    }

    /// Sets the type of the pageblock that begins at `frame`. None of its frames is free.
    pub fn set_pageblock_type(&self, frame: u64, migratetype: MigrateType) {
        self.pages.set_pageblock_type(frame as u32, PAGEBLOCK_ORDER, migratetype);
    }

    /// Makes the 2^`order` frames from `frame` free. They were neither free nor allocated.
    pub fn set_free(&self, frame: u64, order: u8) {
        self.zone.with(|zone| zone.give(&self.pages, frame as u32, order));
    }

    /// Makes the 2^`order` frames from `frame` an allocated block of the type of its pageblock.
    /// They were neither free nor allocated.
    pub fn set_used(&self, frame: u64, order: u8) {
        let frame = frame as u32;
        self.pages.set_mark(frame, Mark::Used(order, self.pages.pageblock_type(frame)));
    }

    /// Puts the allocated block of `order` at `frame` on a CPU's list, without counting a free, and
    /// even above the limit of the lists. Returns whether that order has lists.
    pub fn set_listed(&self, cpu: usize, frame: u64, order: u8) -> bool {
        let frame = frame as u32;
        let index = list_index(order, self.pages.pageblock_type(frame));
        index.is_some_and(|index| {
            self.cpus[cpu].with(|pcp| {
                self.pages.set_mark(frame, Mark::Listed(order));
                self.pages.push_head(self.pages.cpu_list(cpu, index), frame);
                pcp.count += 1 << order;
            });
            true
        })
    }

    /// Splits the allocated block of `order` at `frame` into two of the next smaller order. Returns
    /// whether there was such a block, larger than a frame.
    pub fn split(&self, frame: u64, order: u8) -> bool {
        let frame = frame as u32;
        match self.pages.mark(frame) {
            Mark::Used(actual, migratetype) if actual == order && order > 0 => {
                let half = Mark::Used(order - 1, migratetype);
                self.pages.set_mark(frame, half);
                self.pages.set_mark(frame + (1 << (order - 1)), half);
                true
            }
            _ => false,
        }
    }

    /// Raises the limit of a CPU's lists to `high` frames, within the bounds of the allocator's
    /// settings.
    pub fn raise_high(&self, cpu: usize, high: u32) {
        self.cpus[cpu].with(|pcp| pcp.raise_high(high));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list_buddy::Threads;

    const MOVABLE: MigrateType = MigrateType::Movable;

    /// Two pageblocks, the second of them unmovable, with nothing free.
    fn buddy() -> ListBuddy {
        let buddy = ListBuddy::in_use(Threads, 1024, 1024, 1, &Tuning::default()).unwrap();
        buddy.set_pageblock_type(512, MigrateType::Unmovable);
        buddy
    }

    #[test]
    fn a_state_has_the_chosen_free_blocks_of_the_chosen_types() {
        let buddy = buddy();
        assert_eq!((buddy.free_frames(), buddy.alloc(0, 0, MOVABLE)), (0, None));
        buddy.set_free(8, 3);
        buddy.set_free(512, 8);
        buddy.set_used(0, 3);
        assert_eq!(buddy.free_blocks(), [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(buddy.alloc(0, 8, MigrateType::Unmovable), Some(512));
        buddy.free(0, 0, 3).expect("it was set to used");
        buddy.drain_all();
        assert_eq!(buddy.free_blocks(), [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], "merged");
    }

    #[test]
    fn blocks_on_a_list_are_allocated_last_in_first_out() {
        let buddy = buddy();
        for frame in [512, 600, 704] {
            buddy.set_used(frame, 2);
            assert!(buddy.set_listed(0, frame, 2));
        }
        assert_eq!((buddy.held(0), buddy.stats().cpus.frees), (12, 0));
        assert!(buddy.free(0, 704, 2).is_err(), "it is not allocated");
        for frame in [704, 600, 512] {
            assert_eq!(buddy.alloc(0, 2, MigrateType::Unmovable), Some(frame));
        }
        buddy.set_used(0, 4);
        assert!(!buddy.set_listed(0, 0, 4), "order 4 has no lists");
    }

    #[test]
    fn halves_of_an_allocated_block_are_freed_one_by_one() {
        let buddy = buddy();
        buddy.set_used(0, 4);
        assert!(buddy.split(0, 4) && buddy.split(8, 3) && !buddy.split(0, 4) && !buddy.split(9, 0));
        assert!(buddy.free(0, 0, 4).is_err());
        for (frame, order) in [(0, 3), (8, 2), (12, 2)] {
            buddy.free(0, frame, order).expect("a part of the block");
        }
        buddy.drain_all();
        assert_eq!(buddy.free_blocks()[4], 1);
    }

    #[test]
    fn a_raised_limit_keeps_more_frames_on_the_lists_of_a_cpu() {
        let held = |high| {
            let buddy =
                ListBuddy::in_use(Threads, 1 << 16, 1 << 16, 1, &Tuning::default()).unwrap();
            buddy.raise_high(0, high);
            for frame in 0..12_000 {
                buddy.set_used(frame, 0);
                buddy.free(0, frame, 0).expect("it is used");
            }
            buddy.held(0)
        };
        assert!(held(0) < held(6000) && held(6000) < held(7000), "{} and {}", held(0), held(6000));
        assert_eq!(held(8192), held(u32::MAX), "the lists hold more than an eighth of the zone");
    }
}
