//! A program that uses up its address space. A process of its own, because other tests would be refused memory, too.

use std::io;

use framewright_host::{
    Backing, HostError, HostMachine,
    paging::{PageCache, Store},
};

/// A store that keeps nothing.
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
    // 1 TiB of address space each: a thread sanitizer leaves a program little more.
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
