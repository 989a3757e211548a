//! One side: a memory, a page cache, files, and rounds on them.

use std::{
    io,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use framewright::{
    Config, FrameRange, InitError, Layout, Memory, MemoryRange, Pfn, SideTables, Tuning,
};
use framewright_host::{
    Backing, HostMachine, Metadata,
    paging::{FileId, FileStore, PageCache, Pager, PagingError},
};

use super::{
    HostPaging,
    figures::{Interval, Moment},
};
use crate::Error;
use crate::{invariants::all_free, record::Shootdowns, workloads::Side};

/// Pages per read-ahead, as in the kernel without advice for the file.
const READAHEAD: u32 = 32;

/// The parts that a side is built from.
pub(super) struct SideParts {
    tuning: Tuning,
    metadata: Metadata,
    /// Pages that each reader has to read.
    each: u32,
}

/// A running side.
pub(super) struct Open<'b> {
    memory: Memory<'b, HostMachine>,
    cache: PageCache,
    direct: bool,
    each: u32,
    /// Position of the readers.
    next: u32,
    /// Words that differed from those of the file.
    wrong: AtomicU64,
}

fn config<'c>(tuning: Tuning, map: &'c [MemoryRange], cpus: u16) -> Config<'c> {
    Config::new(map, cpus).with_tuning(tuning).with_side_tables(SideTables::default().with_lru())
}

/// The error for a memory that the library refuses.
fn refused(frames: u64, reason: &InitError) -> Error {
    Error::input(format_args!("cannot set up a memory of {frames} frames: {reason}"))
}

/// CPUs for readers and for background reclaim.
fn cpus(paging: &HostPaging) -> u16 {
    paging.readers.saturating_add(1)
}

impl SideParts {
    pub(super) fn new(paging: &HostPaging, side: &Side, each: u32) -> Result<Self, Error> {
        let range = FrameRange::new(Pfn::new(0), Pfn::new(paging.frames));
        let map: Vec<MemoryRange> = range.into_iter().map(MemoryRange::from).collect();
        let layout = Layout::new::<HostMachine>(&config(side.tuning, &map, cpus(paging)))
            .map_err(|reason| refused(paging.frames, &reason))?;
        Ok(Self { tuning: side.tuning, metadata: Metadata::for_layout(&layout)?, each })
    }

    pub(super) fn open(&mut self, paging: &HostPaging) -> Result<Open<'_>, Error> {
        let frames = paging.frames;
        let machine = HostMachine::builder()
            .frames(frames)
            .cpus(cpus(paging))
            .backing(Backing::MetadataOnly)
            .build()?;
        let mut cache = PageCache::new(&machine)?;
        let sharing = paging.work.readers.sharing();
        let (count, pages) = sharing.mappings(paging.readers.into(), self.each.into());
        let pages = pages as u32;
        let mut direct = true;
        for _ in 0..count {
            let refused = |reason: io::Error| {
                Error::input(format_args!(
                    "cannot make a sparse file of {} MiB: {reason}; set TMPDIR to a folder with more space",
                    pages >> 8
                ))
            };
            // An unlinked file: it disappears even if the program is killed.
            let file = tempfile::tempfile().map_err(refused)?;
            file.set_len(u64::from(pages) * 4096).map_err(refused)?;
            let store = FileStore::reopen(&file).map_err(refused)?;
            direct &= store.is_direct();
            cache.add(Box::new(store), pages, READAHEAD)?;
        }
        let map = [machine.frames().into()];
        let config = config(self.tuning, &map, machine.cpus());
        let memory = Memory::new(machine, &config, self.metadata.as_mut())
            .map_err(|reason| refused(frames, &reason))?;
        let (each, wrong) = (self.each, AtomicU64::new(0));
        Ok(Open { memory, cache, direct, each, next: 0, wrong })
    }
}

impl Open<'_> {
    /// Every reader reads its next `share` pages.
    pub(super) fn round(
        &mut self,
        paging: &HostPaging,
        share: u32,
        counter: Option<&Shootdowns>,
    ) -> Result<Interval, Error> {
        let (first, end) = (self.next, self.next.saturating_add(share).min(self.each));
        self.next = end;
        let this = &*self;
        let moment = || Moment::now(&this.memory, &this.cache, counter);
        let result = Pager::run(&this.memory, &this.cache, |pager| {
            let start = Barrier::new(usize::from(paging.readers) + 1);
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                if paging.readers == 1 {
                    scope.spawn(|| {
                        while !over.load(Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
                let readers: Vec<_> = (0..paging.readers)
                    .map(|reader| {
                        let (place, start) = (this.place(paging, reader), &start);
                        scope.spawn(move || this.read(pager, place, first..end, start))
                    })
                    .collect();
                // All readers are ready. The counters are read, then the readers start.
                start.wait();
                let before = moment();
                start.wait();
                let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
                let after = moment();
                over.store(true, Relaxed);
                for result in ended {
                    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                }
                let pages = u64::from(end - first) * u64::from(paging.readers);
                Ok::<_, PagingError>(after.since(&before, pages, pager.stalls()))
            })
        });
        Ok(result?.written()??)
    }

    /// The file of a reader, and the first page of its part.
    fn place(&self, paging: &HostPaging, reader: u16) -> (FileId, u32) {
        let part = paging.work.readers.sharing().part(reader.into(), self.each.into());
        (self.cache.files().nth(part.mapping).expect("a file for each reader"), part.first as u32)
    }

    /// Reads every word of some pages.
    fn read(
        &self,
        pager: &Pager<'_, '_>,
        (file, offset): (FileId, u32),
        pages: std::ops::Range<u32>,
        start: &Barrier,
    ) -> Result<(), PagingError> {
        let me = pager.register();
        // A thread that cannot register must not block the others at the barrier.
        start.wait();
        start.wait();
        let me = me?;
        let mut cpu = pager.cpu(&me)?;
        for page in pages {
            let reading = cpu.read(file, offset + page)?;
            // The file is one hole, so all words are zero.
            if reading.words().fold(0, |all, word| all | word) != 0 {
                let wrong = reading.words().filter(|&word| word != 0).count();
                self.wrong.fetch_add(wrong as u64, Relaxed);
            }
        }
        Ok(())
    }

    /// Describes how pages are evicted, and whether files are read without the kernel's page cache.
    pub(super) fn note(&self) -> String {
        let cached = if self.direct { "past" } else { "through" };
        format!(
            "pages are evicted by {}; files are read {cached} the kernel's page cache",
            self.cache.eviction_method()
        )
    }

    pub(super) fn wrong_words(&self) -> u64 {
        self.wrong.load(Relaxed)
    }

    /// Frees everything, and checks that nothing is left.
    pub(super) fn close(&mut self) -> Result<(), String> {
        let (memory, cache) = (&self.memory, &self.cache);
        let in_memory = || cache.files().map(|file| cache.in_memory(file)).sum::<u64>();
        let most = in_memory();
        let cleared = Pager::run(memory, cache, |pager| {
            let me = pager.register()?;
            pager.cpu(&me)?.evict_all()
        });
        cleared.and_then(|ran| ran.written()?).map_err(|error| error.to_string())?;
        let (managed, left) = (memory.managed(), in_memory());
        if most > managed || left > 0 {
            return Err(format!(
                "the kernel had {most} pages in memory for {managed} frames, and {left} at the end"
            ));
        }
        all_free(memory)
    }
}
