//! Read-ahead: one request to the store for a group of neighbouring pages.

use super::{FileAccessError, FileId, PageCache, Supply, cache::Slot};
use crate::engine::Cpu;

/// A page to be read, and its new frame.
struct Fetched {
    index: u32,
    frame: u32,
    /// The shadow entry of its last eviction.
    shadow: Option<u64>,
}

impl PageCache {
    /// Adds page `index` of a file to the cache, and those neighbours for which frames are free.
    pub(super) fn read_ahead(
        &self,
        cpu: Cpu<'_>,
        file: FileId,
        index: u32,
        supply: &mut dyn Supply,
    ) -> Result<(), FileAccessError> {
        self.store.can_read(file, index).map_err(|_| FileAccessError::Unreadable(index))?;
        let mut fetched = self.fetch_frames(cpu, file, index, supply)?;
        let hole = if self.file(file).spec.sparse { self.costs.hole } else { 0 };
        cpu.work(fetched.len() as u64 * (self.costs.read + hole));
        let mut surplus = Vec::new();
        self.file(file).locked(cpu, || {
            fetched.retain_mut(|fetched| {
                let is_new = self.insert(file, fetched);
                if !is_new {
                    surplus.push(fetched.frame);
                }
                is_new
            });
            // The read begins under the lock: before, another CPU could add and change the page,
            // and the read would return old contents.
            self.read(cpu, file, &fetched);
        });
        for Fetched { frame, shadow, .. } in &fetched {
            supply.cached(cpu, *frame, *shadow);
        }
        supply.give(cpu, &surplus);
        Ok(())
    }

    /// Adds a page to the cache unless another CPU has. The caller holds the file's lock.
    fn insert(&self, file: FileId, fetched: &mut Fetched) -> bool {
        let slot = &self.file(file).slots[fetched.index as usize];
        match slot.get() {
            Slot::Frame(_) => return false,
            Slot::Shadow(shadow) => fetched.shadow = Some(shadow),
            Slot::Empty => {}
        }
        self.page(fetched.frame).set(file, fetched.index, u64::MAX);
        slot.set(Slot::Frame(fetched.frame));
        true
    }

    /// Allocates frames for page `index`, and for its neighbours while frames are free.
    fn fetch_frames(
        &self,
        cpu: Cpu<'_>,
        file: FileId,
        index: u32,
        supply: &mut dyn Supply,
    ) -> Result<Vec<Fetched>, FileAccessError> {
        let of = self.file(file);
        let window = of.spec.readahead.max(1);
        let first = index - index % window;
        let mut fetched = Vec::with_capacity(window as usize);
        for neighbour in first..of.spec.pages.min(first + window) {
            let needed = neighbour == index;
            let wanted = needed || self.store.can_read(file, neighbour).is_ok();
            if of.frame(neighbour).is_some() || !wanted {
                continue;
            }
            match supply.page(cpu, of.spec.sparse, needed) {
                Some(frame) => fetched.push(Fetched { index: neighbour, frame, shadow: None }),
                None if needed => {
                    let frames: Vec<u32> = fetched.iter().map(|fetched| fetched.frame).collect();
                    supply.give(cpu, &frames);
                    return Err(FileAccessError::OutOfMemory);
                }
                None if neighbour > index => break,
                None => {}
            }
        }
        Ok(fetched)
    }

    /// Submits the read of pages that are new in the cache, and sets the time at which each is
    /// ready. The caller holds the file's lock.
    fn read(&self, cpu: Cpu<'_>, file: FileId, fetched: &[Fetched]) {
        let pages = fetched.len() as u64;
        let nothing = pages == 0 || self.file(file).spec.sparse;
        let ready = if nothing { cpu.now() } else { self.store.read(cpu.now(), pages) };
        for Fetched { index, frame, .. } in fetched {
            if let Some(oracle) = self.mmu.oracle() {
                oracle.fill(*frame, self.store.contents(file, *index));
            }
            self.page(*frame).ready.set(ready);
        }
        self.count(|stats| stats.cached += pages);
    }
}
