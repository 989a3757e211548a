//! Pages of files in less memory than they take, on real threads, with real interrupts.

mod paging {
    mod failures;
    mod single;
    pub(crate) mod stores;
    mod stress;
}
