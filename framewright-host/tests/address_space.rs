//! A program that exhausts its address space. This is a separate process, because allocations of other tests would
//! fail, too.

use std::io;

use framewright_host::{
    Backing, HostError, HostMachine,
    paging::{PageCache, Store},
};

/// A store without contents.
struct Empty;

impl Store for Empty {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        into.fill(page as u8);
        Ok(())
    }

    fn write(&self, _: u32, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn files_for_which_there_is_no_address_space_are_refused() {
    let machine =
        HostMachine::builder().frames(4096).cpus(2).backing(Backing::MetadataOnly).build().unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    // Each file needs 1 TiB of address space. A thread sanitizer leaves little more.
    let pages = 1 << 28;
    let most = 1024;
    let refused = (0..most).find_map(|_| cache.add(Box::new(Empty), pages, 1).err());
    let error = refused.expect("more address space than processors have");
    assert!(matches!(error, HostError::OutOfMemory { .. }), "{error}");
    let files = cache.files().len();
    assert!((1..most).contains(&files), "{files}");
    let file = cache.add(Box::new(Empty), 1, u32::MAX).unwrap();
    assert_eq!(cache.files().last(), Some(file));
    assert_eq!(cache.files().len(), files + 1);
}
