//! What runs besides the builders all the time: daemons and shells. Their memory comes and goes a
//! little, so that it is scattered like everything else, and is there still when builders are gone.

use framewright::{MigrateType, Order, Request};

use super::{
    frames::{CLAIMED, Holds},
    kernel::{Kernel, Token},
    program::SWAPPED,
    world::World,
};

/// They take one frame in so many.
const SHARE: u64 = 128;
/// Pages that they let go of, and use anew, while a builder runs a program.
const RENEWED: usize = 256;

/// Has them take their memory.
pub(super) fn start<'m, W: World>(kernel: &Kernel<'_, 'm, W>, token: &mut Token<'_, 'm, W>) {
    let pages = kernel.memory.managed() / SHARE;
    (0..pages).for_each(|_| add(kernel, token));
}

/// They let go of some pages, and use as many others.
pub(super) fn renew<'m, W: World>(kernel: &Kernel<'_, 'm, W>, token: &mut Token<'_, 'm, W>) {
    for _ in 0..RENEWED {
        if let Some(frame) = take_away(kernel) {
            kernel.give_up(token, vec![frame], 0);
            add(kernel, token);
        }
    }
}

fn add<'m, W: World>(kernel: &Kernel<'_, 'm, W>, token: &mut Token<'_, 'm, W>) {
    const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
    // Without memory a daemon makes do with less.
    let Ok(block) = kernel.alloc(token, PAGE) else { return };
    let frame = block.into_raw().0.get() as u32;
    let (builder, mut pages) = (kernel.state.system(), kernel.state.system_pages());
    let index = pages.len() as u32;
    pages.push(frame);
    drop(pages);
    kernel.own_page(token.cpu(), frame, builder, index);
}

/// Takes some page away from its program: its frame, if it is in one. None if compaction has it just then.
fn take_away<W: World>(kernel: &Kernel<'_, '_, W>) -> Option<u32> {
    let (builder, mut pages) = (kernel.state.system(), kernel.state.system_pages());
    let last = *pages.last()?;
    let index = kernel.state.random.borrow_mut().usize(..pages.len());
    let frames = &kernel.state.frames;
    let is_claimed = |frame| frame != SWAPPED && frames.at(frame).is(CLAIMED);
    if is_claimed(pages[index]) || is_claimed(last) {
        return None;
    }
    let frame = pages.swap_remove(index);
    if index < pages.len() && last != SWAPPED {
        let index = index as u32;
        frames.at(last).set(Holds::Anonymous { builder, index }, frames.at(last).flags());
    }
    Some(frame)
}
