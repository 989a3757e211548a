//! A builder: compilers on a CPU, one after the other. Each gets an address space, reads files through the
//! page cache, uses memory of its own, writes an object, and ends, whereupon its pages are unmapped and
//! freed, and then its page tables.
//!
//! What it stores it finds again in its own pages, when it ends; what the disk has, in each source that it
//! reads; and what it has last written of an object, before it writes over that and when it has done.
//! It does a bit at a time, so that it can run beside others on one CPU, and where there is no memory it
//! ends early, as programs do.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::{MigrateType, Order, Pfn, Request};
use framewright_workloads::compilers;

use super::pages::{look, try_touch};
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
/// Pages that are touched at a time.
const AT_ONCE: u64 = 16;
/// A file that is read for the first time leaves an inode: a frame of them for so many files.
const INODES: u64 = 8;
/// What a process has beside its pages and tables: two frames, which are the last to go.
const PROCESS: Request = Request::new(ORDER_1, MigrateType::Unmovable).zeroed();
const ORDER_1: Order = Order::new(1).expect("small");
/// A frame of inodes.
const INODE: Request = Request::new(Order::ZERO, MigrateType::Unmovable).zeroed();

/// How large compilers are, and what they read.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Pages of the smallest.
    pub(super) least: u64,
    /// Pages of the largest.
    pub(super) most: u64,
    /// Pages of the file that all of them read.
    pub(super) sources: u64,
    /// Pages behind those, for objects of each builder.
    pub(super) objects: u64,
    /// Frames of inodes that each builder keeps.
    pub(super) inodes: u64,
}

/// What came of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Done {
    /// Compilers that ended.
    pub(super) exits: u64,
    /// Pages of theirs that were touched, and of files.
    pub(super) pages: u64,
    /// Times that there was no memory.
    pub(super) out_of_memory: u64,
    /// Words that were not what was stored.
    pub(super) wrong: u64,
}

impl Done {
    /// That of another, too.
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

/// A compiler that runs.
struct Process {
    space: Space,
    body: Pfn,
    /// Pages that it will use, and those that it has.
    size: u64,
    touched: u64,
    read: u64,
}

/// See the module.
pub(super) struct Builder {
    cpu: &'static Cpu,
    sizes: Sizes,
    random: Random,
    process: Option<Process>,
    /// Its frames of inodes; 0 where there is none.
    inodes: &'static [AtomicU64],
    /// The word that it wrote last all over each page of its objects; 0: none.
    objects: &'static [AtomicU64],
    /// Where they are written down.
    book: Words,
    /// Grows with every compiler.
    number: u64,
    pub(super) done: Done,
}

/// What the disk has of a page of the file.
pub(super) fn content(page: u64) -> u64 {
    page << 8 | 0x11
}

impl Builder {
    /// The builder of a CPU; `None` if there is no memory for what it keeps.
    pub(super) fn new(cpu: &'static Cpu, sizes: Sizes) -> Option<Self> {
        let (book, words) = file::words(sizes.inodes.max(1) + sizes.objects)?;
        let (objects, inodes) = words.split_at(sizes.objects as usize);
        Some(Self {
            cpu,
            sizes,
            random: Random::new(u64::from(cpu.id.get()) + 1),
            process: None,
            inodes,
            objects,
            book,
            number: 0,
            done: Done::default(),
        })
    }

    /// Does a bit.
    pub(super) fn step(&mut self) {
        if self.go_on().is_none() {
            self.done.out_of_memory += 1;
            self.exit();
        }
    }

    /// Reads some of the file for the first time, as who unpacks an archive.
    pub(super) fn unpack(&mut self, page: u64) {
        self.read(page);
        if page.is_multiple_of(INODES) && self.keep_inode().is_none() {
            self.done.out_of_memory += 1;
        }
    }

    fn go_on(&mut self) -> Option<()> {
        let Some(process) = &mut self.process else { return self.fork() };
        if process.read < READS {
            process.read += 1;
            let page = self.random.below(self.sizes.sources);
            if page.is_multiple_of(INODES) {
                self.keep_inode()?;
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
        // As many between once and twice a size as between twice and four times that.
        let doublings = u64::from((most / least.max(1)).max(1).ilog2());
        let base = least << self.random.below(doublings.max(1));
        let size = (base + self.random.below(base)).min(most);
        let body = own::alloc(PROCESS)?;
        let Some(space) = AddressSpace::create(&[Area::anonymous(0, size)]) else {
            free(body, ORDER_1);
            return None;
        };
        self.number += 1;
        space.get().load();
        self.process = Some(Process { space, body, size, touched: 0, read: 0 });
        Some(())
    }

    fn read(&mut self, page: u64) -> Option<()> {
        self.compare(page, content(page))
    }

    /// Reads a page, which begins with `word` and has nothing else.
    fn compare(&mut self, page: u64, word: u64) -> Option<()> {
        let holds = file::read_page(self.cpu, page, word)?;
        self.done.wrong += u64::from(!holds);
        self.done.pages += 1;
        Some(())
    }

    /// An object, over an older one.
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

    /// The page of the file that a page of its objects is.
    fn object_page(&self, at: u64) -> u64 {
        self.sizes.sources + u64::from(self.cpu.id.get()) * self.sizes.objects + at
    }

    /// Looks at what it has written last of a page of its objects, if it has.
    fn read_back(&mut self, at: u64) -> Option<()> {
        match self.objects[at as usize].load(Ordering::Relaxed) {
            0 => Some(()),
            word => self.compare(self.object_page(at), word),
        }
    }

    /// Looks at all of its objects, once it writes no more.
    pub(super) fn read_objects_back(&mut self) {
        let lacking = (0..self.sizes.objects).filter(|&at| self.read_back(at).is_none()).count();
        self.done.out_of_memory += lacking as u64;
    }

    /// Another frame of inodes is used; some other is not, if there are as many as there may be.
    fn keep_inode(&mut self) -> Option<()> {
        let frame = own::alloc(INODE)?;
        let at = self.random.below(self.inodes.len() as u64);
        free_inode(self.inodes[at as usize].swap(frame.get(), Ordering::Relaxed));
        Some(())
    }

    /// The compiler ends, if there is one: its pages are looked at, and go.
    pub(super) fn exit(&mut self) {
        let Some(Process { space, body, touched, .. }) = self.process.take() else { return };
        let value = value_of(self.number, &space);
        let wrong = (0..touched).filter(|&page| look(page) != value | page).count();
        self.done.wrong += wrong as u64;
        paging::unmap(space.get(), 0, touched);
        AddressSpace::unload();
        space.end();
        free(body, ORDER_1);
    }

    /// Files are forgotten, but for one in so many.
    pub(super) fn forget_files(&self, but_one_in: usize) {
        let gone = self.inodes.iter().enumerate().filter(|(at, _)| !at.is_multiple_of(but_one_in));
        gone.for_each(|(_, inode)| free_inode(inode.swap(0, Ordering::Relaxed)));
    }

    /// Gives back all that it has; what it did.
    pub(super) fn end(mut self) -> Done {
        self.exit();
        self.inodes.iter().for_each(|inode| free_inode(inode.swap(0, Ordering::Relaxed)));
        self.book.give_back();
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
    // SAFETY: a block of the builder's own, which nobody else knows.
    unsafe { own::free(pfn, order) };
}
