//! An allocator, a cache, and a store in memory.

use framewright::{Config, Layout, Memory, MemoryRange, SideTables};
use framewright_host::{Backing, HostBuilder, HostMachine, Metadata, paging::Store};
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// A machine with enough frames for reclaim to choose among pages.
pub(crate) const FRAMES: u64 = 4096;

pub(crate) fn builder(cpus: u16) -> HostBuilder {
    HostMachine::builder().frames(FRAMES).cpus(cpus).backing(Backing::MetadataOnly)
}

/// Metadata for an allocator of this machine's frames, with LRU lists.
pub(crate) fn metadata(machine: &HostMachine, map: &[MemoryRange]) -> Metadata {
    Metadata::for_layout(&Layout::new::<HostMachine>(&config(machine, map)).unwrap()).unwrap()
}

pub(crate) fn config<'c>(machine: &HostMachine, map: &'c [MemoryRange]) -> Config<'c> {
    let side_tables = SideTables::default().with_lru();
    Config::new(map, machine.cpus()).with_side_tables(side_tables)
}

/// Runs `body` with an allocator of all frames of a machine.
pub(crate) fn with_memory<R>(
    machine: HostMachine,
    body: impl FnOnce(&Memory<'_, HostMachine>) -> R,
) -> R {
    let map = [machine.frames().into()];
    let config = config(&machine, &map);
    let mut metadata = metadata(&machine, &map);
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    let result = body(&memory);
    memory.check().unwrap();
    memory.lru().unwrap().check().unwrap();
    assert_eq!(memory.platform().first_corruption(), None);
    result
}

/// A store in memory. One word per page represents all words of the page. Clones share the store.
#[derive(Clone)]
pub(crate) struct Words {
    words: Arc<Mutex<Vec<u64>>>,
    pub(crate) full: Arc<AtomicBool>,
}

impl Words {
    /// Every word of page `n` is `n`.
    pub(crate) fn new(pages: u32) -> Self {
        let words = Arc::new(Mutex::new((0..pages.into()).collect()));
        Self { words, full: Arc::default() }
    }

    pub(crate) fn stored(&self, page: u32) -> u64 {
        self.words.lock().unwrap()[page as usize]
    }
}

impl Store for Words {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        for (page, bytes) in (page..).zip(into.chunks_exact_mut(4096)) {
            let word = self.stored(page).to_ne_bytes();
            bytes.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&word));
        }
        Ok(())
    }

    fn write(&self, page: u32, from: &[u8]) -> io::Result<()> {
        if self.full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let word = u64::from_ne_bytes(from[..8].try_into().unwrap());
        let same = from.chunks_exact(8).all(|bytes| bytes == word.to_ne_bytes());
        assert!(same, "page {page} is written during a store to it");
        self.words.lock().unwrap()[page as usize] = word;
        Ok(())
    }
}
