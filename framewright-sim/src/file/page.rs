//! The state of a frame that holds a file page.

use std::cell::Cell;

use super::FileId;

/// Stored to since it was read or last written.
pub(super) const DIRTY: u8 = 1;
/// Being written to the store.
pub(super) const WRITEBACK: u8 = 2;
/// One CPU has exclusive use of the page.
pub(super) const LOCKED: u8 = 4;
/// The last write of the page failed.
pub(super) const ERROR: u8 = 8;
/// Being migrated to another frame.
pub(super) const MOVING: u8 = 32;
/// The page was on the active list when it was isolated for migration.
pub(super) const ACTIVE: u8 = 64;
/// A program waits until the page is read. Reclaim and compaction skip the page until it is mapped:
/// a kernel's fault has a reference to the page for that time.
pub(super) const AWAITED: u8 = 128;
/// The frame holds a file page.
const CACHED: u8 = 16;

/// The cache's state of a frame. Reads take no locks, because each is a single access.
#[derive(Default)]
pub(super) struct Page {
    file: Cell<u32>,
    index: Cell<u32>,
    /// The time at which the page has been read, in cycles.
    pub(super) ready: Cell<u64>,
    /// Page-table entries that map it.
    pub(super) mapped: Cell<u16>,
    /// Short-term users of the page.
    pub(super) users: Cell<u16>,
    flags: Cell<u8>,
}

impl Page {
    /// The file and page in the frame, if there is one.
    pub(super) fn holds(&self) -> Option<(FileId, u32)> {
        self.is(CACHED).then(|| (FileId(self.file.get()), self.index.get()))
    }

    /// Puts a clean page into the frame.
    pub(super) fn set(&self, file: FileId, index: u32, ready: u64) {
        self.file.set(file.0);
        self.index.set(index);
        self.ready.set(ready);
        self.flags.set(CACHED);
    }

    /// Removes the page from the frame.
    pub(super) fn clear(&self) {
        self.flags.set(0);
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags.get() & flag != 0
    }

    /// Sets a flag. Returns whether it was set before.
    pub(super) fn mark(&self, flag: u8) -> bool {
        let was = self.is(flag);
        self.flags.set(self.flags.get() | flag);
        was
    }

    /// Clears a flag. Returns whether it was set before.
    pub(super) fn unmark(&self, flag: u8) -> bool {
        let was = self.is(flag);
        self.flags.set(self.flags.get() & !flag);
        was
    }

    /// Counts a user of the page while `body` runs, so that the page stays in its frame.
    pub(super) fn held<T>(&self, body: impl FnOnce() -> T) -> T {
        self.users.set(self.users.get() + 1);
        let result = body();
        self.users.set(self.users.get() - 1);
        result
    }
}
