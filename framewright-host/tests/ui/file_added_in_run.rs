use framewright::Memory;
use framewright_host::{HostMachine, paging::{PageCache, Pager, Store}};

fn adds(memory: &Memory<'_, HostMachine>, cache: &mut PageCache, store: Box<dyn Store>) {
    let _ran = Pager::run(memory, &*cache, |_| cache.add(store, 1, 1));
}

fn main() {}
