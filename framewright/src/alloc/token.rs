//! CPU tokens: the right to use one CPU's lists, and the operations that need it.

use core::fmt;

use super::slow;
use crate::{
    core::{Claim, LocalZone, MemoryCore, SlowPathState},
    pcp::{ListIndex, Owned, RawFree},
    platform::{Cost, Platform, Site},
    tuning::Hardening,
    types::{
        AllocError, Block, CpuId, Event, FreeError, MemoryTag, MigrateType, Order, Pfn, Request,
        Shortage, Watermark, cold_path,
    },
};

/// The right to use the lists of one CPU of a memory.
///
/// There is one token per CPU ([`Memory::cpu`](crate::Memory::cpu)), the token stays on its thread, and its methods
/// take `&mut self`. So only one caller uses the lists at a time. Dropping the token returns the right.
///
/// # Example
///
/// ```
/// # use framewright::{Config, FrameRange, Pfn};
/// use framewright::{CpuId, MigrateType, Order, Request};
///
/// # use framewright_fakes::{FakePlatform, leaked};
/// # let map = [FrameRange::new(Pfn::new(0), Pfn::new(8192)).unwrap().into()];
/// # let memory = leaked(FakePlatform::default(), &Config::new(&map, 1));
/// let mut cpu = memory.cpu(CpuId::new(0))?;
/// assert!(memory.cpu(CpuId::new(0)).is_err(), "the CPU has a token");
///
/// let mut pages = [const { None }; 64];
/// let request = Request::new(Order::ZERO, MigrateType::Movable);
/// assert_eq!(cpu.alloc_bulk(request, &mut pages), 64);
/// cpu.free_bulk(&mut pages);
/// cpu.drain(); // the frames on the lists of this CPU return to the zone
/// assert_eq!(memory.free(), 8192);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CpuToken<'a, 'm, P: Platform> {
    claim: Claim<'a, 'm, P>,
    state: &'a dyn SlowPathState,
    tag: MemoryTag<'m>,
}

impl<P: Platform> fmt::Debug for CpuToken<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuToken").field("cpu", &self.cpu()).finish_non_exhaustive()
    }
}

impl<'a, 'm, P: Platform> CpuToken<'a, 'm, P> {
    /// A token for a CPU that the caller has just claimed.
    pub(crate) fn new(claim: Claim<'a, 'm, P>, state: &'a dyn SlowPathState) -> Self {
        Self { tag: claim.memory().tag(), claim, state }
    }

    /// The CPU this token is for.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.claim.cpu()
    }

    /// The machine that the token's memory runs on.
    #[inline(always)]
    #[must_use]
    pub fn platform(&self) -> &'a P {
        self.memory().platform()
    }

    #[inline(always)]
    pub(crate) fn memory(&self) -> &'a MemoryCore<'m, P> {
        self.claim.memory()
    }

    /// Allocates a block.
    ///
    /// # Errors
    ///
    /// The shortage, after everything that the request allows was tried.
    /// [`AllocError::NotRequestable`] or [`AllocError::NoZone`] if no zone can ever serve the
    /// request.
    #[inline(always)]
    pub fn alloc(&mut self, request: Request) -> Result<Block<'m>, AllocError> {
        let pfn = match self.pop(request) {
            Some(pfn) => pfn,
            None => self.alloc_slowly(request)?,
        };
        Ok(self.hand_out(pfn, request))
    }

    /// Allocates a block if there is one on the list for the zone that the request tries first, and if the block needs
    /// neither clearing nor tracing.
    #[inline(always)]
    pub(crate) fn try_alloc(&mut self, request: Request) -> Option<Block<'m>> {
        if request.is_zeroed() || P::TRACING {
            return None;
        }
        let pfn = self.pop(request)?;
        Some(Block::new(self.tag, pfn, request.order()))
    }

    /// As [`CpuToken::alloc`], after [`CpuToken::try_alloc`] has failed. Skips the fast path, unless the
    /// request needs clearing or tracing.
    #[inline(never)]
    pub(crate) fn alloc_past_ring(&mut self, request: Request) -> Result<Block<'m>, AllocError> {
        if request.is_zeroed() || P::TRACING {
            return self.alloc(request);
        }
        Ok(Block::new(self.tag, self.alloc_slowly(request)?, request.order()))
    }

    /// Takes a block off the list for the zone that the request tries first.
    #[inline(always)]
    fn pop(&mut self, request: Request) -> Option<Pfn> {
        let platform = self.memory().platform();
        let (local, mut lists) = self.claim.first_lists(request)?;
        let frame = lists.pop(platform, ListIndex::of(request)?, request.order())?;
        Some(Pfn::new(local.base + u64::from(frame)))
    }

    /// Frees a block.
    ///
    /// # Errors
    ///
    /// A block of another memory is returned to the caller.
    #[inline(always)]
    pub fn free(&mut self, block: Block<'m>) -> Result<(), Block<'m>> {
        if !block.belongs_to(self.tag) {
            return Err(block);
        }
        self.free_frames(block.pfn(), block.order());
        Ok(())
    }

    /// Frees 2^order frames from `pfn`.
    ///
    /// Each level of [`Hardening`](crate::tuning::Hardening) detects these bad frees at the call:
    ///
    /// | bad free | off | checked | tracked, paranoid |
    /// |---|---|---|---|
    /// | not of this memory, misaligned | yes | yes | yes |
    /// | free in the zone | no | yes | yes |
    /// | never allocated | no | in the zone, on own lists | yes |
    /// | of another order, or from the inside of a block | no | yes | yes |
    /// | on a list of the caller's CPU | no | yes | yes |
    /// | on a list of another CPU, or in the depot between CPUs | no | no | yes |
    /// | two CPUs free the same block at once | no | no | yes, one of the two |
    /// | single frames of an extent | no | no | yes |
    /// | allocated again since, as a block of this order | no | no | no |
    ///
    /// No level detects the last bad free: it looks like a free by the new owner. A double free
    /// that *checked* does not detect at the call is refused and reported when the second copy
    /// reaches the zone; by then the block may have had two owners. While another CPU drains the
    /// lists of the caller's CPU, *checked* cannot search them, and the block is freed to the zone.
    ///
    /// # Errors
    ///
    /// The reason why the free was refused; nothing has changed. The refusal was reported through
    /// [`Platform::corruption`], unless the frames are not of this memory or misaligned.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as a block of this memory, usually from
    /// [`Block::into_raw`], and no longer uses them.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn free_raw(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if !self.memory().checks_raw_frees() && self.push_raw(pfn, order) {
            return Ok(());
        }
        self.free_raw_slowly(pfn, order)
    }

    /// As [`CpuToken::free_raw`], for frames that no ring accepts, and for memories that check raw frees.
    #[cold]
    #[inline(never)]
    pub(crate) fn free_raw_slowly(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if !self.memory().checks_raw_frees()
            && let Some(frame) = self.raw_frame(pfn, order)
            && list_of(self.claim.local_zone(), frame, order).is_some()
        {
            return self.free_slowly(frame, order).map_or(Ok(()), Err);
        }
        let (zone, frame) = self.memory().locate(pfn, order)?;
        if self.memory().tuning().hardening == Hardening::Checked
            && let RawFree::ToZone = self.claim.zone(zone).check_raw(frame, order)?
        {
            self.trace_free(pfn, order);
            let refusals = self.memory().context(zone, self.cpu()).free_to_zone(frame, order);
            return refusals.first.map_or(Ok(()), |(_, _, why)| Err(why.into()));
        }
        self.free_frames(pfn, order).map_or(Ok(()), Err)
    }

    /// Turns frames back into a block: the inverse of [`Block::into_raw`].
    ///
    /// # Errors
    ///
    /// The frames are not of this memory, or the block cannot start there. From
    /// [`Hardening::Tracked`](crate::tuning::Hardening::Tracked) on, the call also fails if no such
    /// block is allocated.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as a block of this memory and order.
    #[allow(unsafe_code)]
    pub unsafe fn adopt(&self, pfn: Pfn, order: Order) -> Result<Block<'m>, FreeError> {
        let (zone, frame) = self.memory().locate(pfn, order)?;
        self.memory().context(zone, self.cpu()).expect_block(frame, order)?;
        Ok(Block::new(self.tag, pfn, order))
    }

    /// [`CpuToken::adopt`] for hot paths: nothing is checked.
    ///
    /// # Safety
    ///
    /// The caller owns the frames as a block of this memory and order.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn adopt_unchecked(&self, pfn: Pfn, order: Order) -> Block<'m> {
        Block::new(self.tag, pfn, order)
    }

    /// Splits a block into two halves; the lower one is returned first.
    ///
    /// # Errors
    ///
    /// A block of order 0, or of another memory, is given back. From
    /// [`Hardening::Tracked`](crate::tuning::Hardening::Tracked) on, a block that was freed raw
    /// before is given back as well, and is reported.
    pub fn split(&mut self, block: Block<'m>) -> Result<(Block<'m>, Block<'m>), Block<'m>> {
        let Some(half) = block.order().get().checked_sub(1).and_then(Order::new) else {
            return Err(block);
        };
        if !block.belongs_to(self.tag) {
            return Err(block);
        }
        let (pfn, order) = (block.pfn(), block.order());
        if let Some((zone, frame)) = self.memory().find(pfn, order)
            && self.memory().context(zone, self.cpu()).split_block(frame, order, half).is_err()
        {
            return Err(block);
        }
        let upper = pfn.offset(half.frames());
        Ok((Block::new(self.tag, pfn, half), Block::new(self.tag, upper, half)))
    }

    /// Allocates exactly the block at `pfn`, if it is free in the zone. Blocks on the lists of a
    /// CPU are not found; drain the lists first. Watermarks do not apply.
    ///
    /// # Errors
    ///
    /// [`AllocError::NotRequestable`] as from [`CpuToken::alloc`]; [`AllocError::NoZone`] if no
    /// zone can have such a block there; [`AllocError::NoBlockOfOrder`] if the block is not free.
    pub fn alloc_at(
        &mut self,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) -> Result<Block<'m>, AllocError> {
        if !migratetype.is_requestable() {
            return Err(AllocError::NotRequestable(migratetype));
        }
        let located = self.memory().locate(pfn, order);
        let (zone, frame) = located.map_err(|_| AllocError::NoZone)?;
        let cpu = self.memory().context(zone, self.cpu());
        if !cpu.take_specific(frame, order, migratetype) {
            let shortage = Shortage { zone, order, mark: Watermark::Min, rounds: 0 };
            return Err(AllocError::NoBlockOfOrder(shortage));
        }
        Ok(self.hand_out(pfn, Request::new(order, migratetype)))
    }

    /// Frees a block to the zone, bypassing the lists. If the free completes a free block of the
    /// request's order, that block is allocated to the caller.
    ///
    /// # Errors
    ///
    /// A block of another memory is given back. Every block is given back if the type of `request`
    /// is [not requestable](AllocError::NotRequestable).
    pub fn free_capturing(
        &mut self,
        block: Block<'m>,
        request: Request,
    ) -> Result<Option<Block<'m>>, Block<'m>> {
        if !block.belongs_to(self.tag) || !request.migratetype().is_requestable() {
            return Err(block);
        }
        let (pfn, order) = block.into_raw();
        self.trace_free(pfn, order);
        let Some((zone, frame)) = self.memory().find(pfn, order) else { return Ok(None) };
        let cpu = self.memory().context(zone, self.cpu());
        let captured = cpu.free_capturing(frame, order, request.order(), request.migratetype());
        Ok(captured.map(|frame| self.hand_out(cpu.pfn(frame), request)))
    }

    /// Returns all blocks on this CPU's lists to the zones.
    pub fn drain(&mut self) {
        self.claim.drain();
    }

    /// Returns half of the frames to the zones that this CPU's lists have not needed since the last trim. To be called
    /// about once a second, for example by the timer, so that the frames of past bursts can become part of huge pages. A
    /// CPU that allocates and frees keeps what it uses. Blocks that no CPU has taken from the depots of the zones for a
    /// second ([`Platform::now`]) return, too.
    ///
    /// [`Memory::trim_all`](crate::Memory::trim_all) does the same for all CPUs.
    pub fn trim(&mut self) {
        self.claim.trim();
    }

    /// Frees a block of this memory if it is a single frame of a movable or emptying pageblock of
    /// the first zone (which requests of this CPU try first), its ring has space, the owner may
    /// enter the lists, and the platform does not trace. Otherwise returns it.
    #[inline(always)]
    pub(crate) fn try_free(&mut self, block: Block<'m>) -> Result<(), Block<'m>> {
        let (pfn, order) = (block.pfn(), block.order());
        if !P::TRACING && block.belongs_to(self.tag) && self.push_movable(pfn, order).is_ok() {
            return Ok(());
        }
        Err(block)
    }

    /// As [`CpuToken::try_free`], for a frame number and a list of any order and type. Not for memories that
    /// [check raw frees](MemoryCore::checks_raw_frees).
    #[inline(always)]
    pub(crate) fn push_raw(&mut self, pfn: Pfn, order: Order) -> bool {
        debug_assert!(!self.memory().checks_raw_frees());
        let platform = self.memory().platform();
        if order == Order::ZERO {
            return self
                .raw_frame(pfn, order)
                .is_some_and(|frame| push_single(platform, self.claim.local_lists(), frame));
        }
        self.raw_frame(pfn, order)
            .is_some_and(|frame| push_directly(platform, self.claim.local_lists(), frame, order))
    }

    /// The number of frame `pfn`, relative to the first zone. `None` if frees are traced, or if the block is
    /// misaligned. The frame may be outside the zone. The caller notices this, because a free by this number needs a
    /// list, and only pageblocks that are wholly present in the zone have types with lists.
    #[inline(always)]
    fn raw_frame(&self, pfn: Pfn, order: Order) -> Option<u32> {
        if P::TRACING {
            return None;
        }
        let number = u32::try_from(pfn.get().wrapping_sub(self.claim.local_zone().base)).ok();
        number.filter(|_| pfn.is_aligned(order))
    }

    #[inline(always)]
    fn free_frames(&mut self, pfn: Pfn, order: Order) -> Option<FreeError> {
        self.trace_free(pfn, order);
        match self.push_movable(pfn, order) {
            Ok(()) => None,
            Err(frame) => {
                cold_path();
                self.free_to_other_list(frame, order)
            }
        }
    }

    /// Puts a single movable frame on its list for the first zone, if it belongs there and there is
    /// space; otherwise returns its number in that zone. Frames of pageblocks that are being
    /// emptied have a list of their own.
    #[inline(always)]
    fn push_movable(&mut self, pfn: Pfn, order: Order) -> Result<(), u32> {
        const MOVABLE: u8 = MigrateType::Movable as u8;
        let platform = self.memory().platform();
        let (local, mut lists) = self.claim.local_lists();
        let frame = local.frame(pfn);
        if order != Order::ZERO {
            return Err(frame);
        }
        let Some(mut push) = lists.begin_push(platform) else { return Err(frame) };
        // Branching on the type, instead of computing the list from it, lets the processor predict
        // the list. So the next pop does not wait for the load of the type.
        let of = local.type_of(frame);
        let pushed = if of == Some(MOVABLE) {
            push.put(ListIndex::MOVABLE, frame, order)
        } else {
            cold_path();
            of.is_some_and(ListIndex::is_type_emptying)
                && push.put(ListIndex::EMPTYING, frame, order)
        };
        if push.end(pushed) { Ok(()) } else { Err(frame) }
    }

    /// Frees a block that the list of single movable frames of the first zone cannot accept: that
    /// list is full, or the block belongs to another list. `frame` counts from the first zone's
    /// base.
    #[inline(never)]
    fn free_to_other_list(&mut self, frame: u32, order: Order) -> Option<FreeError> {
        let platform = self.memory().platform();
        platform.cost(Cost::OtherList, 1);
        if push_directly(platform, self.claim.local_lists(), frame, order) {
            return None;
        }
        let base = self.claim.local_zone().base;
        if let Some((normal, lists)) = self.claim.normal_lists() {
            // Wraps modulo 2^32, like every difference of frame numbers in a zone.
            let frame = frame.wrapping_add(base.wrapping_sub(normal.base) as u32);
            if push_directly(platform, (normal, lists), frame, order) {
                return None;
            }
        }
        self.free_slowly(frame, order)
    }

    #[cold]
    #[inline(never)]
    fn free_slowly(&mut self, frame: u32, order: Order) -> Option<FreeError> {
        let local = self.claim.local_zone();
        let is_local = local.type_of(frame).and_then(MigrateType::from_number).is_some();
        let (zone, frame) = match is_local {
            true => (local.id, frame),
            // A block's frames are in a zone; raw frames were looked up before.
            false => self.memory().find(self.pfn_of(frame), order)?,
        };
        let refusals = self.claim.zone(zone).free(frame, order);
        refusals.first.map(|(_, _, why)| why.into())
    }

    /// The frame with a number relative to the first zone's base. Frames of other zones have such
    /// numbers, too, modulo 2^32. They are unique because a memory spans fewer frames than that.
    fn pfn_of(&self, frame: u32) -> Pfn {
        let start = self.memory().start();
        let from_start = (self.claim.local_zone().base - start.get()) as u32;
        start.offset(u64::from(from_start.wrapping_add(frame)))
    }

    #[cold]
    #[inline(never)]
    fn alloc_slowly(&mut self, request: Request) -> Result<Pfn, AllocError> {
        let memory = self.memory();
        memory.platform().point(Site::SlowPath);
        // Memory may have been added or removed, so that other zones are nearest now.
        self.claim.refresh();
        if request.migratetype().is_requestable()
            && let Some(zone) = self.claim.first(request).map(|local| local.id)
        {
            let mut cpu = self.claim.zone(zone);
            if let Ok(frame) = slow::take(&mut cpu, request, slow::first_access(memory, request)) {
                return Ok(cpu.pfn(frame));
            }
        }
        let pfn = slow::alloc(&mut self.claim, self.state, request);
        if P::TRACING && pfn.is_err() {
            let event = Event::PageAlloc { pfn: None, request };
            memory.platform().trace(self.cpu(), &event);
        }
        pfn
    }

    #[inline(always)]
    fn trace_free(&self, pfn: Pfn, order: Order) {
        self.memory().trace_free(self.cpu(), pfn, order);
    }

    /// Makes a block of frames that have just left a list or the zone.
    #[inline(always)]
    fn hand_out(&self, pfn: Pfn, request: Request) -> Block<'m> {
        let block = Block::new(self.tag, pfn, request.order());
        if request.is_zeroed() || P::TRACING {
            self.memory().prepare(self.cpu(), pfn, request);
        }
        block
    }
}

/// Puts a block on its list, if the list follows from order and type alone.
#[inline(always)]
fn push_directly<P: Platform>(
    platform: &P,
    (local, mut lists): (&LocalZone<'_, P>, Owned<'_, '_, P>),
    frame: u32,
    order: Order,
) -> bool {
    let Some(mut push) = lists.begin_push(platform) else { return false };
    let pushed = match list_of(local, frame, order) {
        Some(list) => push.put(list, frame, order),
        None => false,
    };
    push.end(pushed)
}

/// As [`push_directly`], for a single frame, most likely in a movable pageblock.
#[inline(always)]
fn push_single<P: Platform>(
    platform: &P,
    (local, mut lists): (&LocalZone<'_, P>, Owned<'_, '_, P>),
    frame: u32,
) -> bool {
    let Some(mut push) = lists.begin_push(platform) else { return false };
    let pushed = match local.type_of(frame) {
        Some(of) if of == MigrateType::Movable as u8 => {
            push.put(ListIndex::MOVABLE, frame, Order::ZERO)
        }
        Some(of) => match ListIndex::freeing_directly(Order::ZERO, of) {
            Some(list) => push.put(list, frame, Order::ZERO),
            None => false,
        },
        None => false,
    };
    push.end(pushed)
}

/// The list that a block of a zone is freed to, if it follows from order and type alone.
#[inline(always)]
fn list_of<P: Platform>(local: &LocalZone<'_, P>, frame: u32, order: Order) -> Option<ListIndex> {
    ListIndex::freeing_directly(order, local.type_of(frame)?)
}
