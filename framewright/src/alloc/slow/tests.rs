//! What happens when zones change under a request. The rest is tested from outside.

#![allow(unsafe_code)]

use std::{
    boxed::Box,
    mem::MaybeUninit,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    vec,
};

use crate::{
    Block, Config, CpuId, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Platform, Request,
    platform::{
        BarrierTarget, Captured, CompactPriority, Compacted, Need, OutOfMemory, OwnerLock, Relief,
        Verdict, Wait,
    },
    sync::SpinFlag,
};

type Changing = Memory<'static, Machine>;

/// A machine whose memory changes whenever `changes` says so.
struct Machine {
    memory: OnceLock<&'static Changing>,
    changes: fn(&'static str, u32) -> bool,
    reclaims: AtomicU32,
    compactions: AtomicU32,
    verdicts: AtomicU32,
}

impl Machine {
    /// Notes that `what` was asked, which may change memory.
    fn asked(&self, what: &'static str, counter: &AtomicU32) {
        let before = counter.fetch_add(1, Ordering::Relaxed);
        assert!(before < 100, "for ever: {what}");
        if (self.changes)(what, before) {
            self.memory.get().unwrap().note_change();
        }
    }
}

// SAFETY: `SpinFlag` excludes; there is one thread, which needs no barriers.
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, _: Wait, _: u32) {}
    fn clear(&self, _: Pfn, _: Order) {}
    fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        0
    }
    fn relief(&self) -> &dyn Relief {
        self
    }
}

impl Relief for Machine {
    fn reclaim(&self, _: &Need, _: u64) -> u64 {
        self.asked("reclaim", &self.reclaims);
        0
    }

    fn compact(&self, _: &Need, _: CompactPriority, _: &mut Captured) -> Compacted {
        self.asked("compact", &self.compactions);
        Compacted::Complete
    }

    fn out_of_memory(&self, _: &OutOfMemory) -> Verdict {
        self.asked("judge", &self.verdicts);
        Verdict::GiveUp
    }
}

/// How often a failing request asks for reclaim, compaction and a verdict.
fn asks(request: Request, changes: fn(&'static str, u32) -> bool) -> [u32; 3] {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(1024)).unwrap().into()];
    let config = Config::new(&map, 1);
    let layout = Layout::new::<Machine>(&config).unwrap();
    let buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()].leak();
    let start = buffer.as_ptr().align_offset(layout.align());
    let machine = Machine {
        memory: OnceLock::new(),
        changes,
        reclaims: AtomicU32::new(0),
        compactions: AtomicU32::new(0),
        verdicts: AtomicU32::new(0),
    };
    let memory = Memory::new(machine, &config, &mut buffer[start..]).unwrap();
    let memory: &'static Changing = Box::leak(Box::new(memory));
    assert!(memory.platform().memory.set(memory).is_ok());
    let page = Request::new(Order::ZERO, MigrateType::Unmovable).inside_relief();
    while let Ok(block) = memory.alloc_unlisted(page) {
        let _stays = Block::into_raw(block);
    }
    assert!(memory.cpu(CpuId::new(0)).unwrap().alloc(request).is_err());
    let machine = memory.platform();
    [&machine.reclaims, &machine.compactions, &machine.verdicts]
        .map(|counter| counter.load(Ordering::Relaxed))
}

fn unmovable(order: u8) -> Request {
    Request::new(Order::new(order).unwrap(), MigrateType::Unmovable)
}

#[test]
fn a_request_starts_anew_when_memory_came_or_went() {
    assert_eq!(asks(unmovable(0), |_, _| false), [1, 0, 1]);
    // Noticed before the verdict, and after it.
    assert_eq!(asks(unmovable(0), |what, n| what == "reclaim" && n < 3), [4, 0, 1]);
    assert_eq!(asks(unmovable(0), |what, n| what == "judge" && n < 3), [4, 0, 4]);
    // Before giving up without any verdict.
    assert_eq!(asks(unmovable(0).no_retry(), |_, n| n < 2), [3, 0, 0]);
}

#[test]
fn anew_means_with_early_compaction() {
    assert_eq!(asks(unmovable(1), |_, _| false), [1, 2, 1]);
    assert_eq!(asks(unmovable(1), |what, n| what == "judge" && n == 0), [2, 4, 2]);
}
