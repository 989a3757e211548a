//! The kernel as the owner of pages: the calls of the library, each for a slice of pages.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering;

use framewright::{
    Pfn,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Unmapped, WriteOut},
    tlb::Unmapping,
};

use super::{Cached, DIRTY, File, RECLAIMED, WRITTEN, flags, set_flags, try_lock, unlock};
use crate::{
    frames,
    platform::Machine,
    wait::{self, Event},
};

/// The kernel as the owner of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner;

// SAFETY: a released frame was in the file until then, and was allocated as a block of order 0.
unsafe impl PageOwner<Machine> for Owner {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        for (&pfn, out) in frames.iter().zip(out) {
            *out = lock(pfn);
        }
    }

    fn unlock(&self, frames: &[Pfn]) {
        frames.iter().copied().for_each(unlock);
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        for (&pfn, out) in frames.iter().zip(out) {
            let mappings = File::current().into_iter().flat_map(|file| file.mappings_of(pfn));
            let young = mappings.filter(|(_, _, slot)| slot.clear_accessed()).count() as u32;
            *out = Reference { young, ..Reference::default() };
        }
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut Unmapping<'_, '_, '_, Machine>,
        out: &mut [Unmapped],
    ) {
        let Some(file) = File::current() else { return };
        for (&pfn, out) in frames.iter().zip(out) {
            super::unmap(file, pfn, batch);
            *out = Unmapped::Removed { dirty: is_dirty(pfn) };
        }
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        let Some(file) = File::current() else { return };
        for (&pfn, out) in frames.iter().zip(out) {
            if let Some(page) = file.page_of(pfn) {
                file.disk[page as usize].store(frames::read(pfn, 0), Ordering::Release);
                flags(pfn).fetch_and(!DIRTY, Ordering::AcqRel);
                WRITTEN.fetch_add(1, Ordering::Relaxed);
                *out = WriteOut::Done;
            }
        }
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        let Some(file) = File::current() else { return };
        for ((&pfn, &shadow), out) in frames.iter().zip(shadows).zip(out) {
            *out = match file.page_of(pfn) {
                _ if file.mappings_of(pfn).next().is_some() => Released::Busy,
                _ if is_dirty(pfn) => Released::Dirty,
                None => Released::Busy,
                Some(page) => {
                    let word = Cached::Evicted(shadow).word();
                    file.cache[page as usize].store(word, Ordering::Release);
                    set_flags(pfn, 0);
                    wait::wake(Event::SERVED);
                    RECLAIMED.fetch_add(1, Ordering::Relaxed);
                    Released::Released
                }
            };
        }
    }
}

fn is_dirty(pfn: Pfn) -> bool {
    flags(pfn).load(Ordering::Acquire) & DIRTY != 0
}

fn lock(pfn: Pfn) -> Option<PageState> {
    let file = File::current()?;
    file.page_of(pfn)?;
    if !try_lock(pfn) {
        return None;
    }
    if file.page_of(pfn).is_none() {
        unlock(pfn);
        return None;
    }
    let mapped = file.mappings_of(pfn).next().is_some();
    Some(PageState { mapped, dirty: is_dirty(pfn), ..PageState::default() })
}
