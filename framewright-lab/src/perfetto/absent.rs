//! The file of a trace in a program without the feature `perfetto`: it cannot be created.

use std::path::Path;

use super::{Flow, Track};
use crate::Error;

/// There is none.
#[derive(Debug)]
pub(super) enum File {}

impl File {
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        Err(Error::input(format_args!(
            "'{}': this program was built without traces for Perfetto; build it with `cargo build --release --features \
             perfetto`",
            path.display()
        )))
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        match self {}
    }

    pub(super) fn process(&mut self, _: Track, _: i32, _: &str) {
        match *self {}
    }

    pub(super) fn thread(&mut self, _: Track, _: i32, _: i64, _: &str) {
        match *self {}
    }

    pub(super) fn track(&mut self, _: Track, _: Track, _: i32, _: &str) {
        match *self {}
    }

    pub(super) fn counter(&mut self, _: Track, _: Track, _: i32, _: &str, _: &str) {
        match *self {}
    }

    pub(super) fn begin(&mut self, _: u64, _: Track, _: &str, _: Option<Flow>) {
        match *self {}
    }

    pub(super) fn end(&mut self, _: u64, _: Track) {
        match *self {}
    }

    pub(super) fn instant(&mut self, _: u64, _: Track, _: &str, _: Option<Flow>) {
        match *self {}
    }

    pub(super) fn value(&mut self, _: u64, _: Track, _: u64) {
        match *self {}
    }
}
