//! What is known of a frame that holds a page of a file.

use std::cell::Cell;

use super::FileId;

/// Written to since it was read, or last written.
pub(super) const DIRTY: u8 = 1;
/// Being written to the store.
pub(super) const WRITEBACK: u8 = 2;
/// Somebody does something to the page that nobody else may do meanwhile.
pub(super) const LOCKED: u8 = 4;
/// The last attempt to write it failed.
pub(super) const ERROR: u8 = 8;
/// It is on its way to another frame.
pub(super) const MOVING: u8 = 32;
/// Reclaim took it for one in use when it was claimed to be moved.
pub(super) const ACTIVE: u8 = 64;
/// A program waits until it is read: reclaim and compaction leave it alone until it is mapped. A kernel's fault
/// holds a reference to the page for as long.
pub(super) const AWAITED: u8 = 128;
/// It is a page of a file.
const CACHED: u8 = 16;

/// A frame, as the cache knows it. Readers look without locks: everything is a single access.
#[derive(Default)]
pub(super) struct Page {
    file: Cell<u32>,
    index: Cell<u32>,
    /// When what is read into it is there.
    pub(super) ready: Cell<u64>,
    /// Page-table entries that map it.
    pub(super) mapped: Cell<u16>,
    /// Who else uses it for a moment.
    pub(super) users: Cell<u16>,
    flags: Cell<u8>,
}

impl Page {
    /// The file and page that the frame holds, if it does.
    pub(super) fn holds(&self) -> Option<(FileId, u32)> {
        self.is(CACHED).then(|| (FileId(self.file.get()), self.index.get()))
    }

    /// It holds this from now on: fresh.
    pub(super) fn set(&self, file: FileId, index: u32, ready: u64) {
        self.file.set(file.0);
        self.index.set(index);
        self.ready.set(ready);
        self.flags.set(CACHED);
    }

    /// It holds nothing any more.
    pub(super) fn clear(&self) {
        self.flags.set(0);
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags.get() & flag != 0
    }

    /// Sets a flag; whether it was set.
    pub(super) fn mark(&self, flag: u8) -> bool {
        let was = self.is(flag);
        self.flags.set(self.flags.get() | flag);
        was
    }

    /// Takes a flag away; whether it was set.
    pub(super) fn unmark(&self, flag: u8) -> bool {
        let was = self.is(flag);
        self.flags.set(self.flags.get() & !flag);
        was
    }

    /// Somebody uses it for the time of `body`: it stays where it is.
    pub(super) fn held<T>(&self, body: impl FnOnce() -> T) -> T {
        self.users.set(self.users.get() + 1);
        let result = body();
        self.users.set(self.users.get() - 1);
        result
    }
}
