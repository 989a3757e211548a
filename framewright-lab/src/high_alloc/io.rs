//! Reading, writing and deleting files.

#![allow(unsafe_code)]

use framewright::{
    MigrateType, Order, Request,
    reclaim::{FreedBy, PageKind},
};

use super::{
    files::{FileId, NONE, Write},
    frames::{CLAIMED, DIRTY, GONE, Holds, WRITEBACK},
    kernel::{Kernel, Token, pfn},
    slab::Kind,
    world::{OnCpu, World},
};

/// Cost of copying a page to or from a program, in cycles.
const COPY: u64 = 1_000;
/// At most one frame in this number may be dirty before writers wait: Linux's `dirty_ratio` of 20
/// %.
const DIRTY_SHARE: u64 = 5;
/// Latency of the store, and its time per page: a solid-state disk of 500 MB/s.
pub(super) const LATENCY_NS: u64 = 90_000;
pub(super) const PAGE_NS: u64 = 8_192;
/// Pages per write request.
const SENT_AT_ONCE: usize = 256;

/// The request failed after all attempts.
pub(super) struct OutOfMemory;

impl<'m, W: World> Kernel<'_, 'm, W> {
    /// Reads a file. Returns the time at which the read ends if pages had to be fetched from the
    /// store.
    pub(super) fn read(
        &self,
        cpu: W::Cpu,
        token: &mut Token<'_, 'm, W>,
        file: FileId,
    ) -> Result<Option<u64>, OutOfMemory> {
        self.ensure_inode(token, file)?;
        let mut fetched = 0;
        for index in 0..self.state.files.at(file).pages {
            cpu.work(COPY);
            match self.state.files.frame(file, index) {
                Some(frame) => {
                    self.world.look(frame);
                    self.reclaim.lru().mark_accessed(cpu.id(), pfn(frame));
                }
                None => {
                    self.add_page(cpu, token, file, index, 0)?;
                    fetched += 1;
                }
            }
        }
        let took = self.ticks(LATENCY_NS + fetched * PAGE_NS);
        if fetched > 0 {
            self.state.took(took);
        }
        Ok((fetched > 0).then(|| cpu.now() + took))
    }

    /// Writes `pages` pages of a file. Returns the time until which the writer must wait if too
    /// many pages are dirty.
    pub(super) fn write(
        &self,
        cpu: W::Cpu,
        token: &mut Token<'_, 'm, W>,
        file: FileId,
        pages: std::ops::Range<u32>,
    ) -> Result<Option<u64>, OutOfMemory> {
        self.ensure_inode(token, file)?;
        for index in pages {
            cpu.work(COPY);
            self.ensure_head(token, file, index)?;
            match self.state.files.frame(file, index) {
                Some(frame) => self.set_dirty(file, index, frame),
                None => self
                    .add_page(cpu, token, file, index, DIRTY)
                    .inspect_err(|_| self.state.files.clear_head(file, index))?,
            }
        }
        let files = &self.state.files;
        let unwritten = files.dirty_pages.get() + files.writes.borrow().len() as u64;
        let too_many = unwritten > self.memory.managed() / DIRTY_SHARE;
        if too_many {
            self.world.wake_worker(cpu);
        }
        Ok(too_many.then(|| cpu.now() + self.ticks(1_000_000)))
    }

    /// Deletes a file: its pages and its objects.
    pub(super) fn delete(&self, cpu: W::Cpu, token: &mut Token<'_, 'm, W>, file: FileId) {
        self.truncate(cpu, token, file);
        let of = self.state.files.at(file);
        if of.outlived.get() {
            of.inode.set(NONE);
        }
        for object in [of.inode.replace(NONE), of.entry.replace(NONE)] {
            if object != NONE {
                self.free_object(object);
            }
        }
    }

    /// Removes all pages of a file from the cache.
    pub(super) fn truncate(&self, cpu: W::Cpu, token: &mut Token<'_, 'm, W>, file: FileId) {
        for index in 0..self.state.files.at(file).pages {
            if let Some(frame) = self.state.files.frame(file, index) {
                cpu.work(self.state.costs.release);
                self.drop_page(token, file, index, frame);
            }
        }
        self.free_unneeded();
    }

    fn drop_page(&self, token: &mut Token<'_, 'm, W>, file: FileId, index: u32, frame: u32) {
        let held = self.state.frames.at(frame);
        if held.is(DIRTY) {
            self.state.files.dirty_pages.update(|pages| pages - 1);
        }
        let is_written = held.is(WRITEBACK);
        held.unmark(DIRTY | WRITEBACK);
        if is_written {
            self.reclaim.written(token.cpu(), pfn(frame), Ok(()));
        }
        self.state.files.remove(file, index);
        if held.is(CLAIMED) {
            held.mark(GONE);
            return;
        }
        held.clear();
        // SAFETY: the page is in no file any more, no page table ever mapped it, and reclaim cannot
        // lock a frame without a page.
        let whose = unsafe { self.reclaim.lru().abandon(pfn(frame)) };
        if whose == FreedBy::Caller {
            // SAFETY: the frame was allocated as a block of order 0, and has no other user.
            let block = unsafe { token.adopt_unchecked(pfn(frame), Order::ZERO) };
            // The block is of the token's memory, so this cannot fail.
            let _ = token.free(block);
        }
    }

    /// Allocates the inode and the directory entry of a file if it has none.
    fn ensure_inode(&self, token: &mut Token<'_, 'm, W>, file: FileId) -> Result<(), OutOfMemory> {
        let of = self.state.files.at(file);
        of.used.set(true);
        if of.inode.get() == NONE {
            let inode = self.new_object(token, Kind::Inode).ok_or(OutOfMemory)?;
            of.inode.set(inode);
            self.state.files.known.borrow_mut().push_back(file);
        }
        if of.entry.get() == NONE {
            of.entry.set(self.new_object(token, Kind::Entry).ok_or(OutOfMemory)?);
        }
        Ok(())
    }

    /// Allocates the page-cache node of a file if it has none.
    fn ensure_node(&self, token: &mut Token<'_, 'm, W>, file: FileId) -> Result<(), OutOfMemory> {
        let of = self.state.files.at(file);
        // A file of one page needs no node.
        if of.node.get() == NONE && of.pages > 1 {
            let node = self.new_object(token, Kind::Node).ok_or(OutOfMemory)?;
            of.node.set(node);
        }
        Ok(())
    }

    /// Allocates the buffer head of a page that is written if it has none.
    fn ensure_head(
        &self,
        token: &mut Token<'_, 'm, W>,
        file: FileId,
        index: u32,
    ) -> Result<(), OutOfMemory> {
        let head = || self.state.files.head(file, index);
        if head().get() == NONE {
            head().set(self.new_object(token, Kind::Head).ok_or(OutOfMemory)?);
        }
        Ok(())
    }

    fn add_page(
        &self,
        cpu: W::Cpu,
        token: &mut Token<'_, 'm, W>,
        file: FileId,
        index: u32,
        flags: u8,
    ) -> Result<(), OutOfMemory> {
        const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
        self.ensure_node(token, file)?;
        let Ok(block) = self.alloc(token, PAGE) else {
            self.out_of_memory.update(|times| times + 1);
            return Err(OutOfMemory);
        };
        let frame = block.into_raw().0.get() as u32;
        cpu.work(self.state.costs.read);
        self.state.frames.at(frame).set(Holds::Cached { file: file.0, index }, 0);
        self.world.store(frame);
        self.state.files.insert(file, index, frame);
        if flags & DIRTY != 0 {
            self.set_dirty(file, index, frame);
        }
        self.reclaim.lru().add(cpu.id(), pfn(frame), PageKind::File);
        Ok(())
    }

    fn set_dirty(&self, file: FileId, index: u32, frame: u32) {
        let held = self.state.frames.at(frame);
        if !held.is(DIRTY) {
            held.mark(DIRTY);
            self.state.files.dirty_pages.update(|pages| pages + 1);
            self.state.files.dirty.borrow_mut().push_back((file, index));
        }
    }

    /// Sends the pages that became dirty first to the store. Returns whether there were any.
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
            // On threads time passes meanwhile.
            self.state.took(ends.saturating_sub(cpu.now()));
            files.writes.borrow_mut().push_back(Write { ends, file, index });
        }
        sent > 0
    }

    /// Completes writes that have ended.
    pub(super) fn hear_of_writes(&self, cpu: W::Cpu) {
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
