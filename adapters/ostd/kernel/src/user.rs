//! Address spaces, and a user process that touches its pages.

use alloc::sync::Arc;
use core::ops::Range;

use ostd::{
    arch::cpu::context::{CpuException, UserContext},
    mm::{
        CachePolicy, FrameAllocOptions, PAGE_SIZE, PageFlags, PageProperty, Vaddr, VmSpace,
        io::util::HasVmReaderWriter, vm_space::VmQueriedItem,
    },
    task::disable_preempt,
    user::{DummyUserHooks, ReturnReason, UserContextApi, UserMode},
};

type Done = Result<(), &'static str>;

/// Pages of a process.
pub(crate) const PAGES: usize = 1024;

const CODE: Vaddr = 0x1000_0000;
const DATA: Vaddr = 0x2000_0000;

/// For each address from `rdi` up to `rsi`, in steps of `rdx` bytes: stores the address there.
const PROGRAM: [u8; 13] = [
    0x48, 0x89, 0x3f, // again: mov [rdi], rdi
    0x48, 0x01, 0xd7, //        add rdi, rdx
    0x48, 0x39, 0xf7, //        cmp rdi, rsi
    0x72, 0xf5, //              jb again
    0x0f, 0x05, //              syscall
];

fn data() -> Range<Vaddr> {
    DATA..DATA + PAGES * PAGE_SIZE
}

fn page_at(addr: Vaddr) -> Range<Vaddr> {
    let start = addr / PAGE_SIZE * PAGE_SIZE;
    start..start + PAGE_SIZE
}

/// Maps a new page that begins with `bytes`. The rest is zero.
fn map(space: &VmSpace, addr: Vaddr, bytes: &[u8]) -> Done {
    let frame = FrameAllocOptions::new().alloc_frame().map_err(|_| "no frame")?;
    if !bytes.is_empty() {
        frame.writer().write(&mut bytes.into());
    }
    let guard = disable_preempt();
    let mut cursor = space.cursor_mut(&guard, &page_at(addr)).map_err(|_| "no cursor")?;
    cursor.map(frame.into(), PageProperty::new_user(PageFlags::RWX, CachePolicy::Writeback));
    Ok(())
}

/// Unmaps all data, and waits until no CPU has a translation.
fn unmap(space: &VmSpace) -> Done {
    let guard = disable_preempt();
    let mut cursor = space.cursor_mut(&guard, &data()).map_err(|_| "no cursor")?;
    if cursor.unmap(PAGES * PAGE_SIZE) != PAGES {
        return Err("pages of the process are missing");
    }
    cursor.flusher().dispatch_tlb_flush();
    cursor.flusher().sync_tlb_flush();
    Ok(())
}

/// Maps every page of a new address space, and unmaps them.
pub(crate) fn map_and_unmap() -> Done {
    let space = VmSpace::new();
    for addr in data().step_by(PAGE_SIZE) {
        map(&space, addr, &[])?;
    }
    unmap(&space)
}

/// Runs a process that writes one word of each page.
pub(crate) fn touch_pages() -> Done {
    process(PAGE_SIZE, |_| Ok(()))
}

/// Runs a process that writes every word of its pages, then verifies all words. Returns the number of words.
pub(crate) fn store_every_word() -> Result<usize, &'static str> {
    process(size_of::<u64>(), every_word)?;
    Ok(PAGES * PAGE_SIZE / size_of::<u64>())
}

fn every_word(space: &VmSpace) -> Done {
    for addr in data().step_by(PAGE_SIZE) {
        let guard = disable_preempt();
        let mut cursor = space.cursor(&guard, &page_at(addr)).map_err(|_| "no cursor")?;
        let Ok((_, Some(VmQueriedItem::MappedRam { frame, .. }))) = cursor.query() else {
            return Err("a page of the process is missing");
        };
        let mut words = frame.reader();
        for addr in page_at(addr).step_by(size_of::<u64>()) {
            if words.read_val::<u64>() != Ok(addr as u64) {
                return Err("a word of the process is wrong");
            }
        }
    }
    Ok(())
}

/// Runs the program in an address space of its own. Its page faults map pages.
fn process(step: usize, look: impl Fn(&VmSpace) -> Done) -> Done {
    let space = Arc::new(VmSpace::new());
    map(&space, CODE, &PROGRAM)?;
    space.activate();
    let mut context = UserContext::default();
    context.set_instruction_pointer(CODE);
    let registers = context.general_regs_mut();
    (registers.rdi, registers.rsi, registers.rdx) = (DATA, data().end, step);
    let mut user = UserMode::new(context);
    loop {
        match user.execute(&DummyUserHooks) {
            ReturnReason::UserSyscall => break,
            ReturnReason::KernelEvent => {}
            ReturnReason::UserException => match user.context_mut().take_exception() {
                Some(CpuException::PageFault(fault)) if data().contains(&fault.addr) => {
                    map(&space, fault.addr, &[])?;
                }
                _ => return Err("the process failed"),
            },
        }
    }
    look(&space)?;
    unmap(&space)
}
