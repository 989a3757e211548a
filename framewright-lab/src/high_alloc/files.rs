//! Files: their pages in the cache, and the kernel's objects for each.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// No frame, no object.
pub(super) const NONE: u32 = u32::MAX;

/// Number of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileId(pub(super) u32);

/// One file.
pub(super) struct File {
    /// The slot of its first page.
    first: u32,
    /// Maximum number of its pages.
    pub(super) pages: u32,
    /// Number of its pages in the cache.
    pub(super) cached: Cell<u32>,
    /// Slabs of its inode and its directory entry.
    pub(super) inode: Cell<u32>,
    pub(super) entry: Cell<u32>,
    /// Slab of the page-cache node, while any page is cached.
    pub(super) node: Cell<u32>,
    /// Used since the last scan.
    pub(super) used: Cell<bool>,
    /// Always open: its inode stays in memory.
    pub(super) pinned: Cell<bool>,
    /// Its inode is never freed, even after the file is deleted.
    pub(super) outlived: Cell<bool>,
}

/// A page under writeback.
#[derive(Clone, Copy)]
pub(super) struct Write {
    pub(super) ends: u64,
    pub(super) file: FileId,
    pub(super) index: u32,
}

/// All files.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<File>,
    /// The frame of each page.
    slots: Vec<Cell<u32>>,
    /// The slab of each page's buffer head, if the page was written since it was cached.
    heads: Vec<Cell<u32>>,
    /// Pages in the order in which they became dirty; some are clean again, or evicted.
    pub(super) dirty: RefCell<VecDeque<(FileId, u32)>>,
    pub(super) dirty_pages: Cell<u64>,
    pub(super) writes: RefCell<VecDeque<Write>>,
    /// Whether reclaim waits for clean pages.
    pub(super) writers_wanted: Cell<bool>,
    /// Files with an inode, least recently used first.
    pub(super) known: RefCell<VecDeque<FileId>>,
    pub(super) cached_pages: Cell<u64>,
    /// Slabs of objects that are no longer needed. They are freed later, outside the hot path.
    pub(super) unneeded: RefCell<Vec<u32>>,
}

impl Files {
    /// Creates a file of up to `pages` pages, of which none is cached.
    pub(super) fn create(&mut self, pages: u32) -> FileId {
        let first = self.slots.len() as u32;
        for of in [&mut self.slots, &mut self.heads] {
            of.extend((0..pages).map(|_| Cell::new(NONE)));
        }
        self.files.push(File {
            first,
            pages,
            cached: Cell::new(0),
            inode: Cell::new(NONE),
            entry: Cell::new(NONE),
            node: Cell::new(NONE),
            used: Cell::new(false),
            pinned: Cell::new(false),
            outlived: Cell::new(false),
        });
        FileId(self.files.len() as u32 - 1)
    }

    pub(super) fn at(&self, file: FileId) -> &File {
        &self.files[file.0 as usize]
    }

    /// The frame of a page, if it is cached.
    pub(super) fn frame(&self, file: FileId, index: u32) -> Option<u32> {
        Some(self.slot(file, index).get()).filter(|&frame| frame != NONE)
    }

    /// Adds a page to the cache.
    pub(super) fn insert(&self, file: FileId, index: u32, frame: u32) {
        self.slot(file, index).set(frame);
        let of = self.at(file);
        of.cached.set(of.cached.get() + 1);
        self.cached_pages.set(self.cached_pages.get() + 1);
    }

    /// Changes the frame of a page.
    pub(super) fn relocate(&self, file: FileId, index: u32, frame: u32) {
        self.slot(file, index).set(frame);
    }

    /// Removes a page from the cache.
    pub(super) fn remove(&self, file: FileId, index: u32) {
        self.slot(file, index).set(NONE);
        self.clear_head(file, index);
        let of = self.at(file);
        of.cached.set(of.cached.get() - 1);
        if of.cached.get() == 0 && of.node.get() != NONE {
            self.unneeded.borrow_mut().push(of.node.replace(NONE));
        }
        self.cached_pages.set(self.cached_pages.get() - 1);
    }

    /// The slab of a page's buffer head, or [`NONE`].
    pub(super) fn head(&self, file: FileId, index: u32) -> &Cell<u32> {
        &self.heads[(self.at(file).first + index) as usize]
    }

    /// Clears the buffer head of a page.
    pub(super) fn clear_head(&self, file: FileId, index: u32) {
        let head = self.head(file, index).replace(NONE);
        if head != NONE {
            self.unneeded.borrow_mut().push(head);
        }
    }

    fn slot(&self, file: FileId, index: u32) -> &Cell<u32> {
        &self.slots[(self.at(file).first + index) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_page_frees_its_buffer_head_and_the_last_page_the_node() {
        let mut files = Files::default();
        let file = files.create(2);
        files.at(file).node.set(7);
        for page in 0..2 {
            files.insert(file, page, page);
            files.head(file, page).set(40 + page);
        }
        files.remove(file, 0);
        assert_eq!(files.unneeded.take(), [40]);
        files.remove(file, 1);
        assert_eq!(files.unneeded.take(), [41, 7]);
        assert_eq!(files.head(file, 1).get(), NONE);
    }
}
