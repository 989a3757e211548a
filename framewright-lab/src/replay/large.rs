//! Vectors of many MiB. They are on huge pages if the system has them, because the first access to each small page takes
//! microseconds.

/// An empty vector with address space for `items`. If the system refuses it, the vector has none, and grows as others.
pub(super) fn vector<T>(items: usize) -> Vec<T> {
    let mut vector = Vec::new();
    if vector.try_reserve_exact(items).is_ok() {
        #[cfg(feature = "host")]
        advise(vector.spare_capacity_mut());
    }
    vector
}

/// Asks for huge pages. A kernel without them refuses, and small pages do as well.
#[cfg(feature = "host")]
#[allow(unsafe_code)]
fn advise<T>(space: &mut [std::mem::MaybeUninit<T>]) {
    use crate::anonymous::PAGE;
    use rustix::mm::{Advice, madvise};
    let start = space.as_mut_ptr().cast::<u8>();
    let skip = start.align_offset(PAGE);
    let bytes = size_of_val(space).saturating_sub(skip) / PAGE * PAGE;
    // SAFETY: the advice changes no contents. The pages are wholly in the space of this vector.
    _ = unsafe { madvise(start.wrapping_add(skip).cast(), bytes, Advice::LinuxHugepage) };
}
