//! Reading, writing and deleting files.

#![allow(unsafe_code)]

use std::{cell::Cell, ops::Range};

use framewright::{
    CpuId, MigrateType, Order, Pfn, Request,
    reclaim::{FreedBy, PageKind},
};

use super::{
    files::{FileId, NONE, Write},
    frames::{CLAIMED, DIRTY, GONE, Holds, WRITEBACK},
    kernel::{CpuContext, Kernel, State, pfn},
    slab::Kind,
    world::{OnCpu, World},
};

/// Cost of copying a page to or from a program, in cycles.
const COPY: u64 = 1_000;
/// Writers wait if more than one frame in this number is dirty or under writeback: Linux's
/// `dirty_ratio` of 20 %.
const DIRTY_SHARE: u64 = 5;
/// Latency of the storage device, and its time per page: a solid-state disk of 500 MB/s.
pub(super) const LATENCY_NS: u64 = 90_000;
pub(super) const PAGE_NS: u64 = 8_192;
/// Pages per write request.
const SENT_AT_ONCE: usize = 256;

/// A page of a file or a program.
pub(super) const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

/// The request failed after all attempts.
pub(super) struct OutOfMemory;

impl<W: World> CpuContext<'_, '_, '_, W> {
    /// Reads a file. Returns the time at which the read ends if pages had to be read from the
    /// device.
    pub(super) fn read(&mut self, file: FileId) -> Result<Option<u64>, OutOfMemory> {
        let (kernel, cpu) = (self.kernel, self.cpu);
        self.ensure_inode(file)?;
        let mut fetched = 0;
        for index in 0..kernel.state.files.at(file).pages {
            cpu.work(COPY);
            match kernel.state.files.frame(file, index) {
                Some(frame) => {
                    kernel.world.verify(frame);
                    kernel.reclaim.lru().mark_accessed(cpu.id(), pfn(frame));
                }
                None => {
                    self.add_page(file, index, 0)?;
                    fetched += 1;
                }
            }
        }
        let took = kernel.ticks(LATENCY_NS + fetched * PAGE_NS);
        if fetched > 0 {
            kernel.state.record_device_time(took);
        }
        Ok((fetched > 0).then(|| cpu.now() + took))
    }

    /// Writes the pages `pages` of a file. Returns the time until which the writer must wait if too
    /// many pages are dirty.
    pub(super) fn write(
        &mut self,
        file: FileId,
        pages: Range<u32>,
    ) -> Result<Option<u64>, OutOfMemory> {
        let (kernel, cpu) = (self.kernel, self.cpu);
        let files = &kernel.state.files;
        self.ensure_inode(file)?;
        for index in pages {
            cpu.work(COPY);
            self.ensure_head(file, index)?;
            match files.frame(file, index) {
                Some(frame) => kernel.set_dirty(file, index, frame),
                None => self
                    .add_page(file, index, DIRTY)
                    .inspect_err(|_| files.clear_head(file, index))?,
            }
        }
        let unwritten = files.dirty_pages.get() + files.writes.borrow().len() as u64;
        let too_many = unwritten > kernel.memory.managed() / DIRTY_SHARE;
        if too_many {
            kernel.world.wake_worker(cpu);
        }
        Ok(too_many.then(|| cpu.now() + kernel.ticks(1_000_000)))
    }

    /// Deletes a file: its pages and its objects.
    pub(super) fn delete(&mut self, file: FileId) {
        self.truncate(file);
        let of = self.kernel.state.files.at(file);
        if of.outlived.get() {
            of.inode.set(NONE);
        }
        for object in [of.inode.replace(NONE), of.entry.replace(NONE)] {
            if object != NONE {
                self.kernel.free_object(object);
            }
        }
    }

    /// Removes all pages of a file from the cache.
    pub(super) fn truncate(&mut self, file: FileId) {
        let State { files, costs, .. } = self.kernel.state;
        for index in 0..files.at(file).pages {
            if let Some(frame) = files.frame(file, index) {
                self.cpu.work(costs.release);
                self.drop_page(file, index, frame);
            }
        }
        self.kernel.free_unneeded();
    }

    fn drop_page(&mut self, file: FileId, index: u32, frame: u32) {
        let Kernel { state, reclaim, .. } = self.kernel;
        let held = state.frames.at(frame);
        if held.is(DIRTY) {
            state.files.dirty_pages.update(|pages| pages - 1);
        }
        let is_written = held.is(WRITEBACK);
        held.unmark(DIRTY | WRITEBACK);
        if is_written {
            reclaim.written(self.cpu.id(), pfn(frame), Ok(()));
        }
        state.files.remove(file, index);
        if held.is(CLAIMED) {
            held.mark(GONE);
            return;
        }
        held.clear();
        // SAFETY: the page is in no file any more, no page table ever mapped it, and reclaim cannot
        // lock a frame without a page.
        if unsafe { reclaim.lru().abandon(pfn(frame)) } == FreedBy::Caller {
            // SAFETY: the frame was allocated as a block of order 0, and has no other user.
            unsafe { self.free_page(pfn(frame)) };
        }
    }

    /// Frees the frame of a page.
    ///
    /// # Safety
    ///
    /// The frame was allocated as a block of order 0, and has no other user.
    pub(super) unsafe fn free_page(&mut self, frame: Pfn) {
        // SAFETY: the caller promises it.
        let block = unsafe { self.token.adopt_unchecked(frame, Order::ZERO) };
        // The block is of the token's memory, so this cannot fail.
        let _ = self.token.free(block);
    }

    /// Allocates the inode and the directory entry of a file if it has none.
    fn ensure_inode(&mut self, file: FileId) -> Result<(), OutOfMemory> {
        let files = &self.kernel.state.files;
        let of = files.at(file);
        of.used.set(true);
        if self.ensure(&of.inode, Kind::Inode)? {
            files.known.borrow_mut().push_back(file);
        }
        self.ensure(&of.entry, Kind::Entry)?;
        Ok(())
    }

    /// Allocates an object if there is none. Returns whether there was none.
    fn ensure(&mut self, object: &Cell<u32>, kind: Kind) -> Result<bool, OutOfMemory> {
        let is_new = object.get() == NONE;
        if is_new {
            object.set(self.new_object(kind).ok_or(OutOfMemory)?);
        }
        Ok(is_new)
    }

    /// Allocates the buffer head of a page that is written if it has none.
    fn ensure_head(&mut self, file: FileId, index: u32) -> Result<(), OutOfMemory> {
        self.ensure(self.kernel.state.files.head(file, index), Kind::Head)?;
        Ok(())
    }

    fn add_page(&mut self, file: FileId, index: u32, flags: u8) -> Result<(), OutOfMemory> {
        let of = self.kernel.state.files.at(file);
        // A file of one page needs no page-cache node.
        if of.pages > 1 {
            self.ensure(&of.node, Kind::Node)?;
        }
        let frame = self.page_frame(PAGE)?;
        self.cpu.work(self.kernel.state.costs.read);
        self.kernel.cache_page(self.cpu.id(), file, index, frame, flags);
        Ok(())
    }
}

impl<W: World> Kernel<'_, '_, W> {
    /// Makes a frame a page of a file; with the flag [`DIRTY`] a dirty one.
    pub(super) fn cache_page(&self, cpu: CpuId, file: FileId, index: u32, frame: u32, flags: u8) {
        self.state.frames.at(frame).set(Holds::Cached { file: file.0, index }, 0);
        self.world.store(frame);
        self.state.files.insert(file, index, frame);
        if flags & DIRTY != 0 {
            self.set_dirty(file, index, frame);
        }
        self.reclaim.lru().add(cpu, pfn(frame), PageKind::File);
    }

    fn set_dirty(&self, file: FileId, index: u32, frame: u32) {
        let held = self.state.frames.at(frame);
        if !held.is(DIRTY) {
            held.mark(DIRTY);
            self.state.files.dirty_pages.update(|pages| pages + 1);
            self.state.files.dirty.borrow_mut().push_back((file, index));
        }
    }

    /// Starts the writes of the pages that became dirty first. Returns whether there were any.
    pub(super) fn write_back(&self, cpu: W::Cpu) -> bool {
        let files = &self.state.files;
        let begins = files.writes.borrow().back().map_or(0, |write| write.ends).max(cpu.now());
        let mut sent = 0;
        while sent < SENT_AT_ONCE {
            let Some((file, index)) = files.dirty.borrow_mut().pop_front() else { break };
            let Some(frame) = files.frame(file, index) else { continue };
            let held = self.state.frames.at(frame);
            if !held.is(DIRTY) {
                continue;
            }
            if held.is(WRITEBACK) {
                files.dirty.borrow_mut().push_back((file, index));
                break;
            }
            cpu.work(self.state.costs.write);
            held.unmark(DIRTY);
            held.mark(WRITEBACK);
            files.dirty_pages.update(|pages| pages - 1);
            sent += 1;
            let ends = begins + self.ticks(LATENCY_NS + sent as u64 * PAGE_NS);
            // On threads the clock advances during this loop, so `ends` may be past.
            self.state.record_device_time(ends.saturating_sub(cpu.now()));
            files.writes.borrow_mut().push_back(Write { ends, file, index });
        }
        sent > 0
    }

    /// Completes writes that have ended.
    pub(super) fn complete_writes(&self, cpu: W::Cpu) {
        loop {
            let write =
                self.state.files.writes.borrow_mut().pop_front_if(|it| it.ends <= cpu.now());
            let Some(Write { file, index, .. }) = write else { return };
            let Some(frame) = self.state.files.frame(file, index) else { continue };
            if self.state.frames.at(frame).is(WRITEBACK) {
                self.state.frames.at(frame).unmark(WRITEBACK);
                self.reclaim.written(cpu.id(), pfn(frame), Ok(()));
            }
        }
    }
}
