//! The file that compilers read and write. It is open while they run.

#![allow(unsafe_code)]

use core::sync::atomic::AtomicU64;

use super::builder::content;
use crate::{
    exit::refuse,
    file::{self, File, Words},
};

/// The memory of a file that is not open yet.
pub(super) struct Sources {
    words: [Words; 2],
    slices: [&'static [AtomicU64]; 2],
}

impl Sources {
    /// Memory for a file of `pages` pages.
    pub(super) fn new(pages: u64) -> Self {
        let (Some(cache), Some(disk)) = (file::words(pages), file::words(pages)) else {
            refuse(format_args!(
                "there is not enough memory for the page cache and disk tables of a file of {pages} pages"
            ))
        };
        Self { words: [cache.0, disk.0], slices: [cache.1, disk.1] }
    }

    /// Runs `work` while the file is open.
    pub(super) fn opened<R>(self, work: impl FnOnce() -> R) -> R {
        let file = File::new(self.slices[0], self.slices[1], content);
        // SAFETY: the file is not moved, and is closed below.
        unsafe { file.open() };
        let result = work();
        file.close();
        self.words.into_iter().for_each(Words::give_back);
        result
    }
}
