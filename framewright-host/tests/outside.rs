//! An outsider who has the crate, and no unsafe code: what he can try, and what comes of it.

#![forbid(unsafe_code)]

mod outside {
    mod limits;
    mod mixups;
    pub(crate) mod setup;
    mod unwritten;
}
