use framewright::Memory;
use framewright_host::{HostMachine, paging::{PageCache, Pager}};

fn keeps_a_page(memory: &Memory<'_, HostMachine>, cache: &PageCache) {
    let _guard = Pager::run(memory, cache, |pager| {
        let me = pager.register().unwrap();
        let mut pager_cpu = pager.cpu(&me).unwrap();
        pager_cpu.write(cache.files().next().unwrap(), 0).unwrap()
    });
}

fn main() {}
