//! What runs besides the builders all the time: daemons and shells. Their memory comes and goes a
//! little, so that it is scattered like everything else, and is there still when builders are gone.

#![allow(unsafe_code)]

use framewright::{MigrateType, Order, Request};

use super::{
    frames::{CLAIMED, Holds},
    kernel::{Kernel, Token, pfn},
    world::World,
};

/// They take one frame in so many.
const SHARE: u64 = 128;
/// Pages that they let go of, and use anew, while a builder runs a program.
const RENEWED: usize = 256;

/// Has them take their memory.
pub(super) fn start<W: World>(kernel: &Kernel<'_, '_, W>, token: &mut Token<'_, '_, W>) {
    let pages = kernel.memory.managed() / SHARE;
    (0..pages).for_each(|_| add(kernel, token));
}

/// They let go of some pages, and use as many others.
pub(super) fn renew<W: World>(kernel: &Kernel<'_, '_, W>, token: &mut Token<'_, '_, W>) {
    for _ in 0..RENEWED {
        if let Some(frame) = let_go(kernel) {
            // SAFETY: the frame was allocated as a block of order 0, and is in no program any more.
            let freed = unsafe { token.free_raw(pfn(frame), Order::ZERO) };
            debug_assert_eq!(freed, Ok(()), "frame {frame}");
            add(kernel, token);
        }
    }
}

fn add<W: World>(kernel: &Kernel<'_, '_, W>, token: &mut Token<'_, '_, W>) {
    const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
    // Without memory a daemon makes do with less.
    let Ok(block) = kernel.world.outside(|| token.alloc(PAGE)) else { return };
    let frame = block.into_raw().0.get() as u32;
    let (builder, mut pages) = (kernel.state.system(), kernel.state.system_pages());
    let index = pages.len() as u32;
    kernel.state.frames.at(frame).set(Holds::Anonymous { builder, index }, 0);
    kernel.world.store(frame);
    pages.push(frame);
}

/// Takes some page away from its program; none if compaction has it just then.
fn let_go<W: World>(kernel: &Kernel<'_, '_, W>) -> Option<u32> {
    let (builder, mut pages) = (kernel.state.system(), kernel.state.system_pages());
    let last = *pages.last()?;
    let index = kernel.state.random.borrow_mut().usize(..pages.len());
    let frames = &kernel.state.frames;
    if frames.at(pages[index]).is(CLAIMED) || frames.at(last).is(CLAIMED) {
        return None;
    }
    let frame = pages.swap_remove(index);
    if frame != last {
        let index = index as u32;
        frames.at(last).set(Holds::Anonymous { builder, index }, frames.at(last).flags());
    }
    frames.at(frame).clear();
    kernel.world.look(frame);
    Some(frame)
}
