//! Stores with known contents, and an allocator with files in them.

use framewright::{
    Config, Layout, Memory, SideTables, Tuning,
    tuning::{Auto, FlushBatching},
};
use framewright_host::{
    Backing, HostMachine, Metadata,
    paging::{PageCache, Pager, PagingError, Store},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// The value of every word of a page that was never written.
pub(crate) fn token(page: u32) -> u64 {
    (u64::from(page) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A store in memory. One word per page represents all words of the page. Clones share the store.
#[derive(Clone)]
pub(crate) struct Tokens(Arc<Inner>);

struct Inner {
    words: Vec<AtomicU64>,
    pub(crate) full: AtomicBool,
    pub(crate) broken: AtomicBool,
    unreadable: AtomicU64,
}

impl Tokens {
    pub(crate) fn new(pages: u32) -> Self {
        Self(Arc::new(Inner {
            words: (0..pages).map(|page| AtomicU64::new(token(page))).collect(),
            full: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            unreadable: AtomicU64::new(u64::MAX),
        }))
    }

    pub(crate) fn stored(&self, page: u32) -> u64 {
        self.0.words[page as usize].load(Relaxed)
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.0.full.store(full, Relaxed);
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.0.broken.store(broken, Relaxed);
    }

    pub(crate) fn set_unreadable(&self, page: Option<u32>) {
        self.0.unreadable.store(page.map_or(u64::MAX, u64::from), Relaxed);
    }
}

impl Store for Tokens {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        for (page, bytes) in (page..).zip(into.chunks_exact_mut(4096)) {
            if u64::from(page) == self.0.unreadable.load(Relaxed) {
                return Err(rustix::io::Errno::IO.into());
            }
            let word = self.stored(page).to_ne_bytes();
            bytes.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&word));
        }
        Ok(())
    }

    fn write(&self, page: u32, from: &[u8]) -> io::Result<()> {
        if self.0.broken.load(Relaxed) {
            return Err(rustix::io::Errno::IO.into());
        }
        if self.0.full.load(Relaxed) {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let word = u64::from_ne_bytes(from[..8].try_into().unwrap());
        let same = from.chunks_exact(8).all(|bytes| bytes == word.to_ne_bytes());
        assert!(same, "page {page} is written during a store to it");
        self.0.words[page as usize].store(word, Relaxed);
        Ok(())
    }
}

/// The parameters of an allocator.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) frames: u64,
    /// The number of threads that use pages.
    pub(crate) cpus: u16,
    pub(crate) batching: FlushBatching,
    pub(crate) vectors: bool,
}

impl Shape {
    pub(crate) fn new(batching: FlushBatching) -> Self {
        Self { frames: 4096, cpus: 1, batching, vectors: true }
    }

    /// Runs `body` with an allocator that has these parameters and with files. Then evicts all pages and
    /// checks that all frames are free.
    pub(crate) fn run<R>(
        &self,
        files: &[(Tokens, u32)],
        body: impl FnOnce(&Pager<'_, '_>, &PageCache) -> R,
    ) -> Result<R, PagingError> {
        let machine = HostMachine::builder()
            .frames(self.frames)
            .cpus(self.cpus + 1)
            .backing(Backing::MetadataOnly)
            .build()?;
        let map = [machine.frames().into()];
        let mut tuning = Tuning::default();
        tuning.tlb.batching = self.batching;
        tuning.tlb.deferred_max = Auto::Fixed(256);
        let side_tables = SideTables::default().with_lru();
        let config =
            Config::new(&map, machine.cpus()).with_tuning(tuning).with_side_tables(side_tables);
        let layout = Layout::new::<HostMachine>(&config).unwrap();
        let mut metadata = Metadata::for_layout(&layout)?;
        let mut cache = match self.vectors {
            true => PageCache::new(&machine)?,
            false => PageCache::without_vectors(&machine)?,
        };
        for (store, readahead) in files {
            cache.add(Box::new(store.clone()), store.0.words.len() as u32, *readahead)?;
        }
        let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
        let result = Pager::run(&memory, &cache, |pager| {
            let result = body(pager, &cache);
            let me = memory.platform().register().unwrap();
            pager.cpu(&me).unwrap().evict_all().unwrap();
            result
        })?;
        let result = result.written()?;
        memory.drain_all();
        memory.check().unwrap();
        memory.lru().unwrap().check().unwrap();
        assert_eq!(memory.free(), memory.managed(), "frames are still allocated");
        assert_eq!(memory.platform().first_corruption(), None);
        Ok(result)
    }
}
