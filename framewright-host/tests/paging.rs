//! Files in less memory than their size, on real threads, with real interrupts.

mod paging {
    mod failures;
    mod single;
    pub(crate) mod stores;
    mod stress;
}
