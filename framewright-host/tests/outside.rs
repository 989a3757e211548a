//! Safe code outside the crate tries to misuse its interface.

#![forbid(unsafe_code)]

mod outside {
    mod limits;
    mod mixups;
    pub(crate) mod setup;
    mod unwritten;
}
