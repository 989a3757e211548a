//! A builder: compilers on a CPU, one after the other. Each compiler gets an address space, reads
//! files through the page cache, uses memory of its own, writes an object, and exits. At the exit
//! its pages are unmapped and freed, and then its page tables.
//!
//! At the exit of a compiler, the builder verifies the words that it stored to the pages. It also
//! verifies the contents of each source that it reads, and the last contents of an object before it
//! overwrites the object and at the end. It works in small steps, so that several builders can
//! share a CPU. A compiler whose allocation fails exits early.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::{MigrateType, Order, Pfn, Request};
use framewright_workloads::compilers;

use super::pages::{first_word, try_touch};
use crate::{
    cpu::Cpu,
    file::{self, Words},
    own,
    paging::{self, AddressSpace, Area, Space},
};

/// Files that are read for one compiler.
const READS: u64 = compilers::READS as u64;
/// Pages of an object.
const OBJECT: u64 = 16;
/// Pages that are touched in one step.
const AT_ONCE: u64 = 16;
/// Files per frame of inodes. A read of a file whose number is a multiple of this allocates a
/// frame.
const INODES: u64 = 8;
/// Data of a process besides its pages and tables: two frames, which are freed last.
const PROCESS: Request = Request::new(ORDER_1, MigrateType::Unmovable).zeroed();
const ORDER_1: Order = Order::new(1).expect("1 is an order");
/// A frame of inodes.
const INODE: Request = Request::new(Order::ZERO, MigrateType::Unmovable).zeroed();

/// The sizes of compilers and files.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Pages of the smallest compiler.
    pub(super) least: u64,
    /// Pages of the largest compiler.
    pub(super) most: u64,
    /// Pages of the file of sources, which all compilers read.
    pub(super) sources: u64,
    /// Further pages, for the objects of each builder.
    pub(super) objects: u64,
    /// Frames of inodes of each builder.
    pub(super) inodes: u64,
}

/// Counts of a builder.
#[derive(Clone, Copy, Default)]
pub(super) struct Done {
    /// Compilers that exited.
    pub(super) exits: u64,
    /// Pages touched, of programs and files.
    pub(super) pages: u64,
    /// Allocations that failed.
    pub(super) out_of_memory: u64,
    /// Words that differ from the stored ones.
    pub(super) wrong: u64,
}

impl Done {
    /// Adds the counts of another builder.
    pub(super) fn add(&mut self, other: &Self) {
        self.exits += other.exits;
        self.pages += other.pages;
        self.out_of_memory += other.out_of_memory;
        self.wrong += other.wrong;
    }
}

/// A seeded sequence of numbers (xorshift, Marsaglia 2003).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}

/// A running compiler.
struct Process {
    space: Space,
    /// Its block of [`PROCESS`].
    data: Pfn,
    /// The number of pages that it will use.
    size: u64,
    /// The number of pages touched so far.
    touched: u64,
    /// The number of files read so far.
    read: u64,
}

/// A builder on one CPU.
pub(super) struct Builder {
    cpu: &'static Cpu,
    sizes: Sizes,
    random: Random,
    process: Option<Process>,
    /// Its frames of inodes; 0 for none.
    inodes: &'static [AtomicU64],
    /// The last word written to each page of its objects; 0 for none.
    objects: &'static [AtomicU64],
    /// The memory of these tables.
    memory: Words,
    /// The number of compilers so far.
    number: u64,
    pub(super) done: Done,
}

/// The word that fills a page of the file on the disk.
pub(super) fn content(page: u64) -> u64 {
    page << 8 | 0x11
}

impl Builder {
    /// The builder of a CPU; `None` if there is no memory for its tables.
    pub(super) fn new(cpu: &'static Cpu, sizes: Sizes) -> Option<Self> {
        let (memory, words) = file::words(sizes.inodes.max(1) + sizes.objects)?;
        let (objects, inodes) = words.split_at(sizes.objects as usize);
        Some(Self {
            cpu,
            sizes,
            random: Random::new(u64::from(cpu.id.get()) + 1),
            process: None,
            inodes,
            objects,
            memory,
            number: 0,
            done: Done::default(),
        })
    }

    /// Does one step.
    pub(super) fn step(&mut self) {
        if self.go_on().is_none() {
            self.done.out_of_memory += 1;
            self.exit();
        }
    }

    /// Reads a page of the file for the first time, as the extraction of an archive does.
    pub(super) fn unpack(&mut self, page: u64) {
        self.read(page);
        if page.is_multiple_of(INODES) && self.add_inode().is_none() {
            self.done.out_of_memory += 1;
        }
    }

    fn go_on(&mut self) -> Option<()> {
        let Some(process) = &mut self.process else { return self.fork() };
        if process.read < READS {
            process.read += 1;
            let page = self.random.below(self.sizes.sources);
            if page.is_multiple_of(INODES) {
                self.add_inode()?;
            }
            return self.read(page);
        }
        if process.touched < process.size {
            let value = value_of(self.number, &process.space);
            for _ in 0..AT_ONCE.min(process.size - process.touched) {
                try_touch(process.touched, value | process.touched).then_some(())?;
                process.touched += 1;
                self.done.pages += 1;
            }
            return Some(());
        }
        self.write()?;
        self.exit();
        self.done.exits += 1;
        Some(())
    }

    fn fork(&mut self) -> Option<()> {
        let Sizes { least, most, .. } = self.sizes;
        // The sizes are uniform within each power of two, and the powers are equally likely.
        let doublings = u64::from((most / least.max(1)).max(1).ilog2());
        let base = least << self.random.below(doublings.max(1));
        let size = (base + self.random.below(base)).min(most);
        let data = own::alloc(PROCESS)?;
        let Some(space) = AddressSpace::create(&[Area::anonymous(0, size)]) else {
            free(data, ORDER_1);
            return None;
        };
        self.number += 1;
        space.get().load();
        self.process = Some(Process { space, data, size, touched: 0, read: 0 });
        Some(())
    }

    fn read(&mut self, page: u64) -> Option<()> {
        self.compare(page, content(page))
    }

    /// Reads a page, all of whose words should be `word`.
    fn compare(&mut self, page: u64, word: u64) -> Option<()> {
        let holds = file::read_page(self.cpu, page, word)?;
        self.done.wrong += u64::from(!holds);
        self.done.pages += 1;
        Some(())
    }

    /// Writes an object over an older one.
    fn write(&mut self) -> Option<()> {
        let objects = self.sizes.objects;
        let start = self.random.below(objects.saturating_sub(OBJECT));
        for at in (start..objects).take(OBJECT as usize) {
            self.read_back(at)?;
            let (page, word) = (self.object_page(at), self.number << 32 | at << 8 | 0x33);
            file::write_page(self.cpu, page, word).then_some(())?;
            self.objects[at as usize].store(word, Ordering::Relaxed);
            self.done.pages += 1;
        }
        Some(())
    }

    /// The page of the file with page `at` of its objects.
    fn object_page(&self, at: u64) -> u64 {
        self.sizes.sources + u64::from(self.cpu.id.get()) * self.sizes.objects + at
    }

    /// Verifies the last contents of a page of its objects, if it was written.
    fn read_back(&mut self, at: u64) -> Option<()> {
        match self.objects[at as usize].load(Ordering::Relaxed) {
            0 => Some(()),
            word => self.compare(self.object_page(at), word),
        }
    }

    /// Verifies all of its objects at the end.
    pub(super) fn read_objects_back(&mut self) {
        let lacking = (0..self.sizes.objects).filter(|&at| self.read_back(at).is_none()).count();
        self.done.out_of_memory += lacking as u64;
    }

    /// Allocates a frame of inodes for a random slot of the table, and frees the frame that was in
    /// that slot, if any.
    fn add_inode(&mut self) -> Option<()> {
        let frame = own::alloc(INODE)?;
        let at = self.random.below(self.inodes.len() as u64);
        free_inode(self.inodes[at as usize].swap(frame.get(), Ordering::Relaxed));
        Some(())
    }

    /// Ends the running compiler, if there is one: verifies and frees its pages.
    pub(super) fn exit(&mut self) {
        let Some(Process { space, data, touched, .. }) = self.process.take() else { return };
        let value = value_of(self.number, &space);
        let wrong = (0..touched).filter(|&page| first_word(page) != value | page).count();
        self.done.wrong += wrong as u64;
        paging::unmap(space.get(), 0, touched);
        AddressSpace::unload();
        space.end();
        free(data, ORDER_1);
    }

    /// Frees the frames of inodes, except one in `but_one_in`.
    pub(super) fn free_inodes(&self, but_one_in: usize) {
        let gone = self.inodes.iter().enumerate().filter(|(at, _)| !at.is_multiple_of(but_one_in));
        gone.for_each(|(_, inode)| free_inode(inode.swap(0, Ordering::Relaxed)));
    }

    /// Frees everything. Returns the counts.
    pub(super) fn end(mut self) -> Done {
        self.exit();
        self.inodes.iter().for_each(|inode| free_inode(inode.swap(0, Ordering::Relaxed)));
        self.memory.give_back();
        self.done
    }
}

fn free_inode(frame: u64) {
    if frame != 0 {
        free(Pfn::new(frame), Order::ZERO);
    }
}

fn value_of(number: u64, space: &AddressSpace) -> u64 {
    number << 32 | u64::from(space.number()) << 26
}

fn free(pfn: Pfn, order: Order) {
    // SAFETY: a block of the builder, which no other code knows.
    unsafe { own::free(pfn, order) };
}
