//! Vectors of many MiB. They are on huge pages if the system has them, because the first access to each small page takes
//! microseconds.

use framewright_sim::host_memory::in_huge_pages;

/// An empty vector with address space for `items`. If the system refuses it, the vector has none, and grows as others.
pub(super) fn vector<T>(items: usize) -> Vec<T> {
    let mut vector = Vec::new();
    if vector.try_reserve_exact(items).is_ok() {
        in_huge_pages(vector.spare_capacity_mut());
    }
    vector
}
