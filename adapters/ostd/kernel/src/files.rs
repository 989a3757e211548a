//! A page cache of files of four times the memory. Its pages are on the library's LRU lists, which evict them.
//!
//! Every word of a page follows from the number of the page and its version, so the store keeps
//! only the versions, and refuses to write pages with other contents. A page is in the cache while
//! its slot has the frame. A user of a page has a reference to the frame, so reclaim cannot evict
//! the page.

use alloc::{sync::Arc, vec::Vec};
use core::{
    mem,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

use framewright::{
    CpuId, Pfn,
    observe::NodeStat,
    reclaim::{PageKind, PageState, Shadow, WriteError, WriteOut},
};
use framewright_ostd::reclaim::{Evicted, Owner, set_owner};
use ostd::{
    cpu::{PinCurrentCpu, num_cpus},
    impl_untyped_frame_meta_for,
    mm::{
        Frame, FrameAllocOptions, HasPaddr, PAGE_SIZE, Paddr, UniqueFrame,
        io::util::HasVmReaderWriter,
    },
    prelude::println,
    sync::SpinLock,
    task::disable_preempt,
};

use crate::{
    cpus,
    held::{Random, usable},
    stock_or_ours,
};

type Done = Result<(), &'static str>;
type Bytes = [u8; PAGE_SIZE];

/// The metadata of a frame with a page of a file.
struct Page {
    number: usize,
    locked: AtomicBool,
    dirty: AtomicBool,
}

impl_untyped_frame_meta_for!(Page);

impl Page {
    fn try_lock(&self) -> bool {
        !self.locked.swap(true, Ordering::Acquire)
    }

    fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }
}

/// The state of a page in the cache.
enum Slot {
    Absent,
    Evicted(Shadow),
    Present(Frame<Page>),
}

struct Files {
    cache: Vec<SpinLock<Slot>>,
    /// The version of each page.
    store: Vec<AtomicU32>,
    evicted: AtomicUsize,
    written: AtomicUsize,
}

static OPEN: SpinLock<Option<Arc<Files>>> = SpinLock::new(None);

/// The contents of a version of a page.
fn contents(number: usize, version: u32) -> Bytes {
    let mut bytes = [0; PAGE_SIZE];
    let mut word = (u64::from(version) << 40 | number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for part in bytes.chunks_exact_mut(size_of::<u64>()) {
        part.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_mul(0xd129_0d95_3c8f_8e2d).wrapping_add(1);
    }
    bytes
}

fn holds(frame: &Frame<Page>, version: u32) -> bool {
    let mut found = [0; PAGE_SIZE];
    frame.reader().read(&mut found.as_mut_slice().into());
    found == contents(frame.meta().number, version)
}

fn fill(frame: &Frame<Page>, version: u32) {
    frame.writer().write(&mut contents(frame.meta().number, version).as_slice().into());
}

fn pfn_of(frame: &Frame<Page>) -> Pfn {
    Pfn::containing(frame.paddr() as u64)
}

fn this_cpu() -> CpuId {
    CpuId::new(u32::from(disable_preempt().current_cpu()) as u16)
}

/// The page in the frame at `addr`.
fn page_at(addr: Paddr) -> Option<Frame<Page>> {
    Frame::from_in_use(addr).ok()?.try_into().ok()
}

impl Files {
    fn new(pages: usize) -> Self {
        Self {
            cache: (0..pages).map(|_| SpinLock::new(Slot::Absent)).collect(),
            store: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            evicted: AtomicUsize::new(0),
            written: AtomicUsize::new(0),
        }
    }

    /// The frame of a page, which is read from the store if it is not in the cache.
    fn get(&self, number: usize) -> Result<Frame<Page>, &'static str> {
        let lru = framewright_ostd::memory().and_then(|memory| memory.lru());
        let lru = lru.ok_or("the memory has no LRU lists")?;
        loop {
            if let Slot::Present(frame) = &*self.cache[number].lock() {
                lru.mark_accessed(this_cpu(), pfn_of(frame));
                return Ok(frame.clone());
            }
            // The slot is not locked here: the request may reclaim, and reclaim locks slots.
            let page =
                Page { number, locked: AtomicBool::new(false), dirty: AtomicBool::new(false) };
            let frame = FrameAllocOptions::new().zeroed(false).alloc_frame_with(page);
            let frame = frame.map_err(|_| "no frame for a page of a file")?;
            let mut slot = self.cache[number].lock();
            if matches!(*slot, Slot::Present(_)) {
                continue;
            }
            fill(&frame, self.store[number].load(Ordering::Acquire));
            let (cpu, pfn) = (this_cpu(), pfn_of(&frame));
            let is_new = match mem::replace(&mut *slot, Slot::Present(frame.clone())) {
                Slot::Evicted(shadow) => lru.add_refaulted(cpu, pfn, PageKind::File, shadow),
                _ => lru.add(cpu, pfn, PageKind::File),
            };
            return if is_new { Ok(frame) } else { Err("a new page is on a list") };
        }
    }

    fn write(&self, number: usize, version: u32) -> Done {
        let frame = self.get(number)?;
        while !frame.meta().try_lock() {
            core::hint::spin_loop();
        }
        frame.meta().dirty.store(true, Ordering::Release);
        fill(&frame, version);
        frame.meta().unlock();
        Ok(())
    }

    fn verify(&self, number: usize) -> Done {
        let frame = self.get(number)?;
        match holds(&frame, version_of(number)) {
            true => Ok(()),
            false => Err("a page of a file is wrong"),
        }
    }

    /// Removes all pages from the cache.
    fn close(&self) -> Done {
        let lru = framewright_ostd::memory().and_then(|memory| memory.lru());
        let lru = lru.ok_or("the memory has no LRU lists")?;
        for slot in &self.cache {
            if let Slot::Present(frame) = mem::replace(&mut *slot.lock(), Slot::Absent)
                && !lru.remove(pfn_of(&frame))
            {
                return Err("a page of a file is on no list");
            }
        }
        Ok(())
    }
}

impl Owner for Files {
    fn lock(&self, addr: Paddr) -> Option<PageState> {
        let frame = page_at(addr)?;
        let dirty = || frame.meta().dirty.load(Ordering::Acquire);
        frame.meta().try_lock().then(|| PageState { dirty: dirty(), ..PageState::default() })
    }

    fn unlock(&self, addr: Paddr) {
        if let Some(frame) = page_at(addr) {
            frame.meta().unlock();
        }
    }

    fn write_out(&self, addr: Paddr) -> WriteOut {
        let Some(frame) = page_at(addr) else { return WriteOut::Refused };
        let number = frame.meta().number;
        if !holds(&frame, version_of(number)) {
            return WriteOut::Failed(WriteError::Io);
        }
        self.store[number].store(version_of(number), Ordering::Release);
        frame.meta().dirty.store(false, Ordering::Release);
        self.written.fetch_add(1, Ordering::Relaxed);
        WriteOut::Done
    }

    fn release(&self, addr: Paddr, shadow: Shadow) -> Option<Evicted> {
        let number = page_at(addr)?.meta().number;
        let mut slot = self.cache[number].lock();
        let Slot::Present(frame) = mem::replace(&mut *slot, Slot::Evicted(shadow)) else {
            return None;
        };
        let frame = match UniqueFrame::try_from(frame) {
            Ok(frame) if !frame.meta().dirty.load(Ordering::Acquire) => {
                self.evicted.fetch_add(1, Ordering::Relaxed);
                return Some(frame.into());
            }
            Ok(dirty) => dirty.into(),
            Err(in_use) => in_use,
        };
        *slot = Slot::Present(frame);
        None
    }
}

/// The version of a page after it is written: every eighth group of 16 pages is written once.
fn version_of(number: usize) -> u32 {
    u32::from(number / 16 % 8 == 3)
}

/// The pages of one CPU.
fn pages_of(cpu: usize, files: &Files) -> impl Iterator<Item = usize> + use<> {
    (cpu..files.cache.len()).step_by(num_cpus())
}

fn opened() -> Result<Arc<Files>, &'static str> {
    OPEN.lock().clone().ok_or("no files are open")
}

fn write_some(cpu: usize) -> Done {
    let files = opened()?;
    pages_of(cpu, &files)
        .filter(|&number| version_of(number) != 0)
        .try_for_each(|number| files.write(number, version_of(number)))
}

/// Verifies the pages of one CPU. In between, verifies random pages of the first eighth of the
/// files, which all CPUs use.
fn read_all(cpu: usize) -> Done {
    let files = opened()?;
    let mut random = Random::new(cpu);
    for number in pages_of(cpu, &files) {
        files.verify(number)?;
        if number % 64 == cpu {
            files.verify(random.below(files.cache.len() / 8))?;
        }
    }
    Ok(())
}

/// Writes and reads the files on all CPUs. After about a quarter of the pages, memory is full and
/// pages are evicted.
pub(crate) fn run() -> Done {
    let before = stock_or_ours::in_use();
    let files = Arc::new(Files::new(4 * usable() / PAGE_SIZE));
    *OPEN.lock() = Some(files.clone());
    set_owner(Some(files.clone()));
    cpus::run(write_some)?;
    cpus::run(read_all)?;
    let lru = framewright_ostd::memory().and_then(|memory| memory.lru());
    let stats = lru.ok_or("the memory has no LRU lists")?.stats();
    println!("figure file_pages {}", files.cache.len());
    println!("figure file_pages_evicted {}", files.evicted.load(Ordering::Relaxed));
    println!("figure file_pages_written {}", files.written.load(Ordering::Relaxed));
    println!("figure file_pages_refaulted {}", stats.get(NodeStat::WorkingsetRefaultFile));
    set_owner(None);
    *OPEN.lock() = None;
    files.close()?;
    drop(files);
    if stock_or_ours::in_use() != before {
        return Err("not every frame of the files was returned");
    }
    stock_or_ours::check()
}
