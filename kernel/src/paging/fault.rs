//! Page-fault handling.

#![allow(unsafe_code)]

use framewright::{MigrateType, Order, Pfn, Request, reclaim::PageKind};

use super::{
    AddressSpace, Backing,
    entry::{Entry, Slot},
    page_of,
};
use crate::{
    cpu::Cpu,
    file,
    interrupts::Fault,
    memory::{self, with_token},
    rmap::Mapping,
};

/// A page of a program's own data.
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();

/// Maps the page of a fault. Returns `false` if no area contains it, or there is no memory.
pub(crate) fn serve(cpu: &'static Cpu, fault: Fault) -> bool {
    let Some(page) = page_of(fault.address) else { return false };
    let Some(space) = AddressSpace::loaded_on(cpu) else { return false };
    let Some(area) = space.area_of(page) else { return false };
    if fault.write && !area.writable {
        return false;
    }
    let Some(slot) = space.find_or_make(page) else { return false };
    match area.backing {
        Backing::Anonymous => serve_anonymous(cpu, space, page, slot),
        Backing::File => file::serve(cpu, space, page, slot, fault.write),
    }
}

fn serve_anonymous(cpu: &Cpu, space: &AddressSpace, page: u64, slot: &Slot) -> bool {
    if !slot.get().is_none() {
        // Another CPU was faster, or migrates the page.
        slot.wait_while_moving();
        return true;
    }
    let Ok(block) = with_token(|token| token.alloc(PAGE)) else { return false };
    let (pfn, _) = block.into_raw();
    Mapping::new(space.number(), page).record(pfn);
    if slot.install(Entry::page(pfn).writable().accessed().dirty()) {
        add_to_lru(cpu, pfn, PageKind::Anon);
        return true;
    }
    // SAFETY: the frame was allocated above as a block of order 0, and is not known to other code.
    unsafe { memory::free(pfn, Order::ZERO) };
    true
}

fn add_to_lru(cpu: &Cpu, pfn: Pfn, kind: PageKind) {
    if let Some(lru) = memory::memory().lru() {
        lru.add(cpu.id, pfn, kind);
    }
}
