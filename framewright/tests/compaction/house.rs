//! An embedder that owns pages: it refuses, is busy, fails half-way, and lets go of pages while they
//! are claimed. It knows naively what every page must hold, also what a CPU stored through a stale
//! translation.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use framewright::{
    Block, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    migrate::{ClaimEnd, Claims, Effort, Locking, Move, Mover, Stage},
    tlb::{
        BatchSlot, CpuMask, DeferredFlush, FlushBatch, Flushed, Flusher, Scope, Shootdown,
        Translation,
    },
};

use crate::support::machine::Machine;

/// The CPU that has everything mapped, and compacts nothing.
const OTHER: CpuId = CpuId::new(1);

/// How a page behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Page {
    pub order: u8,
    /// What its first frame holds; the others hold one more each.
    pub value: u64,
    /// It never moves.
    pub pinned: bool,
    pub claimed: bool,
    pub locked: bool,
}

/// How often things go wrong: one time in so many; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mishaps {
    pub busy: u64,
    pub refused: u64,
    pub gone: u64,
    pub contended: u64,
}

/// See the module.
pub struct House<'a, 'm> {
    pub memory: &'a Memory<'m, Machine>,
    /// By first frame.
    pub pages: RefCell<BTreeMap<u64, Page>>,
    pub mishaps: Cell<Mishaps>,
    random: Cell<u64>,
    owed: DeferredFlush,
    /// Pages that a stale translation of the other CPU still reaches, by first frame.
    stale: RefCell<Vec<u64>>,
    next_value: Cell<u64>,
    /// Pages may move into movable pageblocks only.
    pub movable_only: Cell<bool>,
    /// Pages may move into pageblocks only that are as full as theirs, or fuller.
    pub fuller_only: Cell<bool>,
    /// What is plugged in, in vain, whenever pages are claimed.
    pub plugged: Cell<Option<FrameRange>>,
    /// Whenever pages are claimed, a CPU has a page for a moment, whose frame stays on its lists.
    pub comes_and_goes: Cell<bool>,
    /// The fewest free frames that there were while pages moved.
    pub least_free: Cell<u64>,
    /// Frames that were looked at for pages to claim.
    pub asked: Cell<u64>,
}

impl<'a, 'm> House<'a, 'm> {
    pub fn new(memory: &'a Memory<'m, Machine>, seed: u64) -> Self {
        Self {
            memory,
            pages: RefCell::default(),
            mishaps: Cell::default(),
            random: Cell::new(seed | 1),
            owed: DeferredFlush::new(),
            stale: RefCell::default(),
            next_value: Cell::new(1),
            movable_only: Cell::new(false),
            fuller_only: Cell::new(false),
            plugged: Cell::new(None),
            comes_and_goes: Cell::new(false),
            least_free: Cell::new(u64::MAX),
            asked: Cell::new(0),
        }
    }

    /// A random number below `end`.
    pub fn below(&self, end: u64) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x >> 11) % end.max(1)
    }

    /// From now on things go wrong as often as chance has it, some of them not at all.
    pub fn let_go_wrong(&self) {
        let one_in = |most| [0, self.below(most) + 1][self.below(2) as usize];
        self.mishaps.set(Mishaps {
            busy: one_in(9),
            refused: one_in(50),
            gone: one_in(40),
            contended: one_in(30),
        });
    }

    fn happens(&self, one_in: u64) -> bool {
        one_in > 0 && self.below(one_in) == 0
    }

    /// Takes a block into use as a page.
    pub fn move_in(&self, block: Block<'m>, pinned: bool) -> u64 {
        let (pfn, order) = block.into_raw();
        let value = self.next_value.get();
        self.next_value.set(value + 1000);
        let page = Page { order: order.get(), value, pinned, ..Page::default() };
        for i in 0..order.frames() {
            self.memory.platform().write(pfn.offset(i), Order::ZERO, value + i);
        }
        assert!(self.pages.borrow_mut().insert(pfn.get(), page).is_none(), "{pfn} twice");
        pfn.get()
    }

    /// Allocates a page; whether there was memory.
    pub fn alloc(&self, order: u8, of: MigrateType, pinned: bool) -> Option<u64> {
        let mut token = self.memory.cpu(CpuId::new(0)).unwrap();
        let request = Request::new(Order::new(order).unwrap(), of).no_wait();
        token.alloc(request).ok().map(|block| self.move_in(block, pinned))
    }

    /// Frees a page through the lists of a CPU.
    pub fn free(&self, at: u64) {
        let page = self.pages.borrow_mut().remove(&at).expect("a page");
        assert!(!page.claimed && !page.locked);
        let mut token = self.memory.cpu(CpuId::new(0)).unwrap();
        let order = Order::new(page.order).unwrap();
        // SAFETY: the page is the house's, and forgotten by now.
        unsafe { token.free_raw(Pfn::new(at), order) }.unwrap();
    }

    /// Lets go of a page that the other CPU may reach still: its frame waits for a flush.
    pub fn park(&self, at: u64) {
        let page = self.pages.borrow_mut().remove(&at).expect("a page");
        assert!(page.order == 0 && !page.claimed && !page.locked);
        let mut slots = [BatchSlot::default(); 1];
        let mut batch = self.flusher(CpuId::new(0)).batch(&mut slots);
        let cpus: CpuMask = [OTHER].into_iter().collect();
        let translation = Translation {
            cpus: &cpus,
            writable: false,
            dirty: false,
            space: 1,
            page: page.value,
            space_flush: &self.owed,
            file_flush: None,
        };
        batch.add(Pfn::new(at), &translation);
        let token = self.memory.cpu(CpuId::new(0)).unwrap();
        // SAFETY: the page owned the frame as a block, and no longer exists.
        let block = unsafe { token.adopt(Pfn::new(at), Order::ZERO) };
        batch.retire(block.unwrap()).unwrap();
        batch.finish(&mut |blocks| panic!("{blocks:?} do not wait"));
    }

    fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'm, Machine> {
        // SAFETY: it flushes all translations that it has made.
        unsafe { self.memory.flusher(cpu, self) }
    }

    /// Some page, if there is one.
    pub fn some_page(&self) -> Option<u64> {
        let pages = self.pages.borrow();
        let count = pages.len() as u64;
        (count > 0).then(|| *pages.keys().nth(self.below(count) as usize).unwrap())
    }

    /// What must hold whenever nothing is going on.
    pub fn check(&self) {
        self.check_but(Order::ZERO, None);
    }

    /// The same while `block` of `order` is somebody else's.
    pub fn check_but(&self, order: Order, block: Option<&Block<'_>>) {
        self.memory.check().unwrap_or_else(|violation| panic!("{violation}"));
        let pages = self.pages.borrow();
        let mut used = 0;
        let mut end = 0;
        for (&at, page) in pages.iter() {
            assert!(at >= end, "pages overlap at {at:#x}");
            assert!(!page.claimed && !page.locked, "{at:#x} is still claimed");
            let frames = 1 << page.order;
            end = at + frames;
            used += frames;
            for i in 0..frames {
                let held = self.memory.platform().read(Pfn::new(at + i));
                assert_eq!(held, page.value + i, "what frame {:#x} holds", at + i);
            }
        }
        let others = block.map_or(0, |block| block.order().frames());
        assert!(block.is_none_or(|block| block.order() == order));
        used += others;
        let idle = self.memory.free() + self.memory.held_by_cpus() + self.memory.in_depots();
        let idle = idle + self.memory.tlb().deferred();
        assert_eq!(
            self.memory.managed() - idle,
            used,
            "frames in use, by the library and the house"
        );
        for zone in self.memory.zones() {
            let counts = self.memory.block_counts(zone.id);
            assert_eq!(counts.pageblocks[MigrateType::Isolate as usize], 0, "left isolated");
        }
        assert!(self.memory.platform().take_reports().is_empty());
    }

    /// Frames of pages in the pageblock of a frame.
    fn used_around(&self, at: u64) -> u64 {
        let pages = self.pages.borrow();
        pages.range(at & !511..(at & !511) + 512).map(|(_, page)| 1 << page.order).sum()
    }

    /// The other CPU stores through its stale translations, for the last time.
    fn last_stores(&self) {
        for at in self.stale.borrow_mut().drain(..) {
            let mut pages = self.pages.borrow_mut();
            if let Some(page) = pages.get_mut(&at) {
                page.value += 1;
                for i in 0..1 << page.order {
                    self.memory.platform().write(Pfn::new(at + i), Order::ZERO, page.value + i);
                }
            }
        }
    }

    fn unmap_one(&self, at: &mut Move, locking: Locking, batch: &mut FlushBatch<'_, '_, Machine>) {
        let mishaps = self.mishaps.get();
        let from = at.from().get();
        if self.fuller_only.get() {
            let (used, there) = (self.used_around(from), self.used_around(at.to().get()));
            assert!(used <= there, "from a pageblock with {used} into one with {there}");
        }
        let mut pages = self.pages.borrow_mut();
        assert!(!pages.contains_key(&at.to().get()), "its new frames are somebody's");
        if self.movable_only.get() {
            let of = self.memory.pageblock_type(at.to());
            assert_eq!(of, Some(MigrateType::Movable), "{} is of another type", at.to());
        }
        let page = pages.get_mut(&from).expect("a claimed page");
        assert!(page.claimed && !page.locked && at.stage() == Stage::Ready);
        if self.happens(mishaps.gone) {
            pages.remove(&from);
            at.set_gone();
        } else if page.pinned || self.happens(mishaps.refused) {
            at.set_refused();
        } else if locking == Locking::Try && self.happens(mishaps.busy) {
            at.set_busy();
        } else {
            page.locked = true;
            let cpus: CpuMask = [OTHER].into_iter().collect();
            let translation = Translation {
                cpus: &cpus,
                writable: true,
                dirty: true,
                space: 1,
                page: page.value,
                space_flush: &self.owed,
                file_flush: None,
            };
            drop(pages);
            self.stale.borrow_mut().push(from);
            batch.add(at.from(), &translation);
            at.set_unmapped();
        }
    }
}

// SAFETY: one thread; a page is claimed, locked and moved as its fields say, and those that are
// claimed are not freed by anybody else.
unsafe impl Mover<Machine> for House<'_, '_> {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        let mishaps = self.mishaps.get();
        if self.happens(mishaps.contended) {
            return if self.below(2) == 0 { ClaimEnd::Contended } else { ClaimEnd::TooMany };
        }
        if let Some(range) = self.plugged.get() {
            self.memory.add_memory(range).expect_err("it is there");
        }
        if self.comes_and_goes.get() {
            let page = self.alloc(0, MigrateType::Movable, false);
            self.free(page.expect("there is a free frame"));
        }
        self.asked.set(self.asked.get() + frames.frames());
        let (start, end) = (frames.start().get(), frames.end().get());
        let mut pages = self.pages.borrow_mut();
        let before = pages.range(..start).next_back();
        let overlaps = before.filter(|(at, page)| *at + (1 << page.order) > start);
        let first = overlaps.map_or(start, |(&at, _)| at);
        for (&at, page) in pages.range_mut(first..end) {
            assert!(!page.locked);
            let order = Order::new(page.order).unwrap();
            if page.claimed || page.pinned && self.below(2) == 0 {
                continue;
            }
            if !claims.push(Pfn::new(at), order) {
                break;
            }
            page.claimed = true;
        }
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        _: &Effort,
        locking: Locking,
        batch: &mut FlushBatch<'_, '_, Machine>,
    ) {
        assert!(locking == Locking::Try || moves.len() == 1, "waits with several locked");
        moves.iter_mut().for_each(|at| self.unmap_one(at, locking, batch));
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        let mishaps = self.mishaps.get();
        self.least_free.set(self.least_free.get().min(self.memory.free()));
        for at in moves {
            assert_eq!(at.stage(), Stage::Copied);
            let mut pages = self.pages.borrow_mut();
            assert!(!self.stale.borrow().contains(&at.from().get()), "copied before the flush");
            if self.happens(mishaps.busy) {
                at.set_busy();
            } else if self.happens(mishaps.refused) {
                at.set_refused();
            } else {
                let page = pages.remove(&at.from().get()).expect("a locked page");
                assert!(page.claimed && page.locked);
                let page = Page { claimed: false, locked: false, ..page };
                assert!(pages.insert(at.to().get(), page).is_none());
                at.set_moved();
            }
        }
    }

    fn undo(&self, moves: &[Move]) {
        for at in moves {
            let mut pages = self.pages.borrow_mut();
            let page = pages.get_mut(&at.from().get()).expect("a locked page");
            assert!(core::mem::take(&mut page.locked), "undone twice");
            self.stale.borrow_mut().retain(|&stale| stale != at.from().get());
        }
    }

    fn release(&self, moves: &mut [Move]) {
        let mishaps = self.mishaps.get();
        for at in moves {
            let mut pages = self.pages.borrow_mut();
            let from = at.from().get();
            let page = pages.get_mut(&from).expect("a claimed page");
            assert!(core::mem::take(&mut page.claimed) && !page.locked);
            if self.happens(mishaps.gone) {
                pages.remove(&from);
                at.set_gone();
            }
        }
    }
}

impl Shootdown for House<'_, '_> {
    fn invalidate(&self, cpu: CpuId, _: Scope) {
        assert_eq!(cpu, OTHER);
        self.last_stores();
    }

    fn interrupt(&self, _: CpuId, targets: &CpuMask) {
        for cpu in targets.iter() {
            self.flusher(cpu).serve();
        }
    }
}
