//! [`FakeMover`]: an owner of pages that moves them. It refuses pages, is busy, fails half-way, and frees pages
//! while they are claimed. It knows the expected contents of every page, including stores through stale translations.

mod calls;
mod faulty;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use framewright::{
    Block, CpuId, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    tlb::{BatchSlot, CpuMask, DeferredFlush, Flusher, Translation},
};

use crate::FakePlatform;

pub use faulty::{FaultyMover, MoverCall, MoverFault};

/// The CPU that has all pages mapped. It does not compact.
const OTHER: CpuId = CpuId::new(1);

/// State of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The order of the page.
    pub order: u8,
    /// Contents of the first frame. Frame number i of the page contains `value + i`.
    pub value: u64,
    /// The page never moves.
    pub pinned: bool,
    /// Compaction has claimed the page.
    pub claimed: bool,
    /// Compaction has unmapped and locked the page.
    pub locked: bool,
}

/// The rates of faults: n means once in n times on average; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// A page is busy, so that it may move later.
    pub busy: u64,
    /// A page is refused.
    pub refused: u64,
    /// The owner frees a page that is about to move.
    pub gone: u64,
    /// A claim ends early.
    pub contended: u64,
}

/// The owner of an allocator's pages, which moves them for compaction. For a single thread. It also models the TLBs:
/// CPU 1 has all pages mapped, and stores to them until they are flushed.
///
/// Frames are numbers without memory behind them. So a test that changes [`FakeMover::pages`] wrongly can only make an
/// assertion fail.
pub struct FakeMover<'a, 'm, const TRACED: bool = false> {
    /// The memory.
    pub memory: &'a Memory<'m, FakePlatform<TRACED>>,
    /// Pages by first frame.
    pub pages: RefCell<BTreeMap<u64, Page>>,
    /// The rates of faults.
    pub fault_rates: Cell<FaultRates>,
    random: Cell<u64>,
    space_flush: DeferredFlush,
    /// Pages that a stale translation of the other CPU still reaches, by first frame.
    stale: RefCell<Vec<u64>>,
    next_value: Cell<u64>,
    /// Asserts that pages move only into movable pageblocks.
    pub movable_only: Cell<bool>,
    /// Asserts that pages move only into pageblocks that are at least as full as their own.
    pub fuller_only: Cell<bool>,
    /// Memory that each claim of pages tries to add. The call fails, because the memory is present.
    pub plugged: Cell<Option<FrameRange>>,
    /// Whether each claim of pages allocates and frees a page, whose frame then stays on a CPU
    /// list.
    pub allocates_while_claiming: Cell<bool>,
    /// Whether no page can be claimed.
    pub stuck: Cell<bool>,
    /// The smallest number of free frames while pages moved.
    pub least_free: Cell<u64>,
    /// Number of frames that were scanned for pages to claim.
    pub scanned: Cell<u64>,
}

impl<'a, 'm, const TRACED: bool> FakeMover<'a, 'm, TRACED> {
    /// The owner of the pages of an allocator, without pages at first. `seed` determines the random failures.
    pub fn new(memory: &'a Memory<'m, FakePlatform<TRACED>>, seed: u64) -> Self {
        Self {
            memory,
            pages: RefCell::default(),
            fault_rates: Cell::default(),
            random: Cell::new(seed | 1),
            space_flush: DeferredFlush::new(),
            stale: RefCell::default(),
            next_value: Cell::new(1),
            movable_only: Cell::new(false),
            fuller_only: Cell::new(false),
            plugged: Cell::new(None),
            allocates_while_claiming: Cell::new(false),
            stuck: Cell::new(false),
            least_free: Cell::new(u64::MAX),
            scanned: Cell::new(0),
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

    /// Sets random fault rates; some of them are 0.
    pub fn randomize_faults(&self) {
        let one_in = |most| [0, self.below(most) + 1][self.below(2) as usize];
        self.fault_rates.set(FaultRates {
            busy: one_in(9),
            refused: one_in(50),
            gone: one_in(40),
            contended: one_in(30),
        });
    }

    fn happens(&self, one_in: u64) -> bool {
        one_in > 0 && self.below(one_in) == 0
    }

    /// Creates a page in a block.
    pub fn add_page(&self, block: Block<'m>, pinned: bool) -> u64 {
        let (pfn, order) = block.into_raw();
        let value = self.next_value.get();
        self.next_value.set(value + 1000);
        let page = Page { order: order.get(), value, pinned, ..Page::default() };
        for i in 0..order.frames() {
            self.memory.platform().write(pfn.offset(i), Order::ZERO, value + i);
        }
        assert!(
            self.pages.borrow_mut().insert(pfn.get(), page).is_none(),
            "{pfn} has a page already"
        );
        pfn.get()
    }

    /// Allocates a page; `None` if there is no memory.
    pub fn alloc(&self, order: u8, of: MigrateType, pinned: bool) -> Option<u64> {
        let mut token = self.memory.cpu(CpuId::new(0)).unwrap();
        let request = Request::new(Order::new(order).unwrap(), of).no_wait();
        token.alloc(request).ok().map(|block| self.add_page(block, pinned))
    }

    /// Frees a page through the lists of a CPU.
    pub fn free(&self, at: u64) {
        let page = self.pages.borrow_mut().remove(&at).expect("a page starts at this frame");
        assert!(!page.claimed && !page.locked);
        let mut token = self.memory.cpu(CpuId::new(0)).unwrap();
        let order = Order::new(page.order).unwrap();
        // SAFETY: the page belonged to this owner, and has been removed.
        unsafe { token.free_raw(Pfn::new(at), order) }.unwrap();
    }

    /// Frees a page whose translation may be in the TLB of the other CPU: the free of its frame is deferred.
    pub fn defer_free(&self, at: u64) {
        let page = self.pages.borrow_mut().remove(&at).expect("a page starts at this frame");
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
            space_flush: &self.space_flush,
            file_flush: None,
        };
        batch.add(Pfn::new(at), &translation);
        let token = self.memory.cpu(CpuId::new(0)).unwrap();
        // SAFETY: the page owned the frame as a block, and no longer exists.
        let block = unsafe { token.adopt(Pfn::new(at), Order::ZERO) };
        batch.retire(block.unwrap()).unwrap();
        batch.finish(&mut |blocks| panic!("{blocks:?} were not deferred"));
    }

    fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'm, FakePlatform<TRACED>> {
        // SAFETY: this value flushes all translations that it has made.
        unsafe { self.memory.flusher(cpu, self) }
    }

    /// A random page, if there is one.
    pub fn some_page(&self) -> Option<u64> {
        let pages = self.pages.borrow();
        let count = pages.len() as u64;
        (count > 0).then(|| *pages.keys().nth(self.below(count) as usize).unwrap())
    }

    /// Checks the invariants while no operation is in progress.
    pub fn check(&self) {
        self.check_but(Order::ZERO, None);
    }

    /// As [`FakeMover::check`], while a test owns `block` of `order`.
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
                assert_eq!(held, page.value + i, "frame {:#x} has wrong contents", at + i);
            }
        }
        let others = block.map_or(0, |block| block.order().frames());
        assert!(block.is_none_or(|block| block.order() == order));
        used += others;
        assert_eq!(
            self.memory.in_use(),
            used + self.memory.tlb().deferred(),
            "the library and the owner count different numbers of frames in use"
        );
        for zone in self.memory.zones() {
            let counts = self.memory.block_counts(zone.id);
            assert_eq!(
                counts.pageblocks[MigrateType::Isolate as usize],
                0,
                "a pageblock is left isolated"
            );
        }
    }

    /// Number of frames of pages in the pageblock of a frame.
    fn used_in_pageblock(&self, at: u64) -> u64 {
        let pages = self.pages.borrow();
        pages.range(at & !511..(at & !511) + 512).map(|(_, page)| 1 << page.order).sum()
    }

    /// The other CPU stores through its stale translations for the last time.
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
}
