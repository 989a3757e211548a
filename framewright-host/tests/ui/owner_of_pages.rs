use framewright::{Pfn, reclaim::PageOwner};
use framewright_host::{HostMachine, paging::PageCache};

fn unlocks_what_is_being_written(cache: &PageCache, frame: Pfn) {
    PageOwner::<HostMachine>::unlock(cache, &[frame]);
}

fn main() {}
