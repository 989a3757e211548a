//! Migration of pages of the file.
//!
//! A page is locked during its migration, as for reclaim, and not mapped. A fault waits for the
//! lock, and then finds the new frame through the file's word.
//!
//! Pages of a file that is being closed are not claimed any more. Pages that were claimed before
//! can still be migrated; the file waits for them before it ends.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering;

use framewright::{
    Pfn,
    migrate::{Locking, MigrateMode, Move},
    reclaim::LruList,
    tlb::Unmapping,
};

use super::{
    ACTIVE, Cached, DIRTY, File, LOCKED, MOVING, flags, set_flags, try_lock, unlock, wait_for_lock,
};
use crate::{memory::memory, platform::Machine};

/// The file whose pages may be in migration.
fn moving() -> Option<&'static File> {
    // SAFETY: null, or a file that is valid until its migrations have ended.
    unsafe { MOVING.load(Ordering::Acquire).as_ref() }
}

/// Whether pages on this list may be claimed. Pages of a file that is being closed may not.
pub(crate) fn may_claim(list: LruList) -> bool {
    let of_file = matches!(list, LruList::ActiveFile | LruList::InactiveFile);
    !of_file || File::current().is_some()
}

/// Records the list of a page that is now isolated.
pub(crate) fn note_list(pfn: Pfn, list: LruList) {
    if list == LruList::ActiveFile {
        flags(pfn).fetch_or(ACTIVE, Ordering::AcqRel);
    }
}

/// Removes the record of [`note_list`]. Returns whether the page was on the active list.
pub(crate) fn clear_list(pfn: Pfn) -> bool {
    flags(pfn).fetch_and(!ACTIVE, Ordering::AcqRel) & ACTIVE != 0
}

/// Locks a claimed page of the file together with its new frame, and removes all its mappings.
/// `false` if it is not a page of the file.
pub(crate) fn unmap(
    at: &mut Move,
    (mode, locking): (MigrateMode, Locking),
    batch: &mut Unmapping<'_, '_, '_, Machine>,
) -> bool {
    let of_file = |file: &&File| file.page_of(at.from()).is_some();
    let Some(file) = moving().filter(of_file) else { return false };
    let waits = locking == Locking::Wait && mode != MigrateMode::Async;
    let lock = |pfn: Pfn| {
        while !try_lock(pfn) {
            if !waits {
                return false;
            }
            wait_for_lock(pfn);
        }
        true
    };
    if !lock(at.from()) {
        at.set_busy();
    } else if file.page_of(at.from()).is_none() {
        unlock(at.from());
        at.set_refused();
    } else if !lock(at.to()) {
        unlock(at.from());
        at.set_busy();
    } else {
        super::unmap(file, at.from(), batch);
        at.set_unmapped();
    }
    true
}

/// Stores the new frame of an unmapped page in the file's word. Returns whether the page is of the
/// file.
pub(crate) fn relocate(from: Pfn, to: Pfn) -> bool {
    let Some(file) = moving() else { return false };
    let Some(page) = file.page_of(from) else { return false };
    if let Some(owner) = memory().frame_owner(to) {
        owner.store(page as u32, Ordering::Release);
    }
    set_flags(to, LOCKED | flags(from).load(Ordering::Acquire) & DIRTY);
    file.cache[page as usize].store(Cached::Present(to).word(), Ordering::Release);
    true
}

/// Unlocks a page in its new frame, and clears the flags of its old frame.
pub(crate) fn unlock_moved(from: Pfn, to: Pfn) {
    set_flags(from, 0);
    unlock(to);
}

/// Unlocks a page that was not migrated. Returns whether it is of the file.
pub(crate) fn unlock_if_of_file(from: Pfn, to: Pfn) -> bool {
    let is = moving().is_some_and(|file| file.page_of(from).is_some());
    if is {
        unlock(to);
        unlock(from);
    }
    is
}
