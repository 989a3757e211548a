//! Reading neighbours: a run of pages for one request to the store.

use super::{FileId, FileTrouble, PageCache, Supply, cache::Slot};
use crate::engine::Cpu;

/// A page that is to be read, and the frame for it.
struct Fetched {
    index: u32,
    frame: u32,
    /// What reclaim left of it.
    shadow: Option<u64>,
}

impl PageCache {
    /// Brings page `index` of a file into the cache, and neighbours for which frames are easily had.
    pub(super) fn read_ahead(
        &self,
        cpu: Cpu<'_>,
        file: FileId,
        index: u32,
        supply: &mut dyn Supply,
    ) -> Result<(), FileTrouble> {
        self.store.can_read(file, index).map_err(|_| FileTrouble::Unreadable(index))?;
        let mut fetched = self.fetch_frames(cpu, file, index, supply)?;
        let ready = self.read(cpu, file, &fetched);
        let mut surplus = Vec::new();
        self.file(file).locked(cpu, || {
            fetched.retain_mut(|fetched| {
                let inserted = self.insert(file, fetched, ready);
                if !inserted {
                    surplus.push(fetched.frame);
                }
                inserted
            });
        });
        for Fetched { frame, shadow, .. } in &fetched {
            supply.cached(cpu, *frame, *shadow);
        }
        self.count(|stats| stats.cached += fetched.len() as u64);
        supply.give(cpu, &surplus);
        Ok(())
    }

    /// Puts a page into the cache unless somebody else has. Under the file's lock.
    fn insert(&self, file: FileId, fetched: &mut Fetched, ready: u64) -> bool {
        let slot = &self.file(file).slots[fetched.index as usize];
        match slot.get() {
            Slot::Frame(_) => return false,
            Slot::Shadow(shadow) => fetched.shadow = Some(shadow),
            Slot::Empty => {}
        }
        self.page(fetched.frame).set(file, fetched.index, ready);
        slot.set(Slot::Frame(fetched.frame));
        true
    }

    /// Frames for page `index`, and for as many of its neighbours as there are some for.
    fn fetch_frames(
        &self,
        cpu: Cpu<'_>,
        file: FileId,
        index: u32,
        supply: &mut dyn Supply,
    ) -> Result<Vec<Fetched>, FileTrouble> {
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
                    return Err(FileTrouble::OutOfMemory);
                }
                None if neighbour > index => break,
                None => {}
            }
        }
        Ok(fetched)
    }

    /// Has the store read what it holds of `fetched`; when that is there.
    fn read(&self, cpu: Cpu<'_>, file: FileId, fetched: &[Fetched]) -> u64 {
        let pages = fetched.len() as u64;
        cpu.work(pages * self.costs.read);
        if let Some(oracle) = self.mmu.oracle() {
            for Fetched { index, frame, .. } in fetched {
                oracle.fill(*frame, self.store.contents(file, *index));
            }
        }
        let nothing = pages == 0 || self.file(file).spec.sparse;
        if nothing { cpu.now() } else { self.store.read(cpu.now(), pages) }
    }
}
