//! An allocator with a `Relief` that follows a script and records its calls.

use framewright::{
    Block, Config, CpuId, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn, Request, ZoneId,
    ZoneKind,
    platform::{Captured, CompactPriority, Compacted, NoKillReason, OutOfMemory, Verdict, Wait},
    tuning::{Auto, Tuning},
};
use framewright_fakes::{FakePlatform, FakeRelief, leaked};
use std::{
    ops::Deref,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A call of a hook of `Relief`, or a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Wake { node: u8, order: u8, highest: ZoneKind },
    Reclaim(u64),
    Compact(CompactPriority),
    AskVerdict(Option<NoKillReason>),
    Wait,
}

/// The answers of the hooks of `Relief`. A number that a function receives is the number of earlier
/// calls of its kind.
#[derive(Clone, Copy)]
pub(crate) struct Answers {
    pub(crate) background: bool,
    pub(crate) reclaim: fn(&Script, usize) -> u64,
    pub(crate) reclaimable: fn(&Script, ZoneId) -> Option<u64>,
    pub(crate) compact: fn(&Script, usize, Captured<'_>) -> Compacted,
    pub(crate) verdict: fn(&Script, usize) -> Verdict,
    pub(crate) wait: fn(&Script, usize),
}

/// Relief that never helps. Compaction exists, but never succeeds.
pub(crate) const NO_HELP: Answers = Answers {
    background: false,
    reclaim: |_, _| 0,
    reclaimable: |_, _| Some(0),
    compact: |_, _, _| Compacted::Complete,
    verdict: |_, _| Verdict::GiveUp,
    wait: |_, _| (),
};

/// An allocator with scripted relief. A single thread acts for all CPUs.
pub(crate) struct Script {
    answers: Answers,
    /// Whether the embedder currently reclaims in the background.
    background: AtomicBool,
    memory: &'static Memory<'static, FakePlatform>,
    calls: Mutex<Vec<Call>>,
    reports: Mutex<Vec<OutOfMemory>>,
    kept: Mutex<Vec<Block<'static>>>,
}

impl Script {
    pub(crate) fn memory(&self) -> &'static Memory<'static, FakePlatform> {
        self.memory
    }

    /// Sets whether the embedder reclaims in the background.
    pub(crate) fn reclaims_in_background_from_now_on(&self, does: bool) {
        self.background.store(does, Ordering::Relaxed);
    }

    /// Records a call and returns the number of earlier calls of its kind.
    fn note(&self, call: Call) -> usize {
        let mut calls = self.calls.lock().unwrap();
        let alike = |other: &&Call| std::mem::discriminant(*other) == std::mem::discriminant(&call);
        let before = calls.iter().filter(alike).count();
        calls.push(call);
        before
    }

    /// All calls since the last query, except wake-ups and waits.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let kept = |call: &Call| !matches!(call, Call::Wake { .. } | Call::Wait);
        calls.into_iter().filter(kept).collect()
    }

    pub(crate) fn take_all_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    pub(crate) fn take_report(&self) -> OutOfMemory {
        self.reports.lock().unwrap().pop().expect("a verdict was asked for")
    }

    /// Repeats `request` until it fails, and keeps the blocks.
    pub(crate) fn allocate_all(&self, request: Request) -> u64 {
        let mut count = 0;
        while let Ok(block) = self.memory().alloc_bypassing_lists(request) {
            self.kept.lock().unwrap().push(block);
            count += 1;
        }
        count
    }

    /// Frees `count` of the kept blocks to the zone.
    pub(crate) fn release(&self, count: u64) -> u64 {
        for _ in 0..count {
            let Some(block) = self.kept.lock().unwrap().pop() else { break };
            self.memory().free_bypassing_lists(block).unwrap();
        }
        count
    }

    /// Frees the kept blocks that `when` selects.
    pub(crate) fn release_where(&self, when: impl Fn(Pfn) -> bool) {
        let blocks = std::mem::take(&mut *self.kept.lock().unwrap());
        let (go, stay): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|b| when(b.pfn()));
        go.into_iter().for_each(|block| self.memory().free_bypassing_lists(block).unwrap());
        *self.kept.lock().unwrap() = stay;
    }

    /// Removes and returns one of the kept blocks.
    pub(crate) fn pop(&self) -> Block<'static> {
        self.kept.lock().unwrap().pop().expect("blocks were kept")
    }
}

impl Deref for Script {
    type Target = Memory<'static, FakePlatform>;

    fn deref(&self) -> &Self::Target {
        self.memory
    }
}

/// The relief that records calls and returns the scripted answers.
fn relief(script: &'static Script) -> FakeRelief {
    FakeRelief::new()
        .in_background(|| script.background.load(Ordering::Relaxed))
        .on_wake(|node, order, highest| {
            script.note(Call::Wake { node: node.get(), order: order.get(), highest });
        })
        .on_reclaim(|_, frames| {
            let before = script.note(Call::Reclaim(frames));
            assert!(before < 1000, "reclaims for ever");
            (script.answers.reclaim)(script, before)
        })
        .on_reclaimable(|zone| (script.answers.reclaimable)(script, zone))
        .on_compact(|_, priority, out| {
            let before = script.note(Call::Compact(priority));
            (script.answers.compact)(script, before, out)
        })
        .on_out_of_memory(|report| {
            let before = script.note(Call::AskVerdict(report.no_kill));
            script.reports.lock().unwrap().push(*report);
            (script.answers.verdict)(script, before)
        })
}

/// An allocator over `map` for two CPUs.
pub(crate) fn memory_of(
    map: &[MemoryRange],
    answers: Answers,
    tune: impl FnOnce(&mut Tuning),
) -> &'static Script {
    let mut config = Config::new(map, 2);
    tune(&mut config.tuning);
    let script: &'static Script = Box::leak(Box::new(Script {
        answers,
        background: AtomicBool::new(answers.background),
        memory: leaked(FakePlatform::default(), &config),
        calls: Mutex::default(),
        reports: Mutex::default(),
        kept: Mutex::default(),
    }));
    let platform = script.memory.platform();
    platform.set_relief(relief(script));
    platform.on_wait(|why, _| {
        assert_eq!(why, Wait::Memory, "a lock is held for ever");
        let before = script.note(Call::Wait);
        (script.answers.wait)(script, before);
    });
    script
}

/// The reserve of the memories of these tests, in frames.
pub(crate) const MIN: u64 = 256;

/// A range of `frames` frames in a zone of a node.
pub(crate) fn range(start: u64, frames: u64, node: u8, zone: ZoneKind) -> MemoryRange {
    let frames = framewright::FrameRange::new(Pfn::new(start), Pfn::new(start + frames)).unwrap();
    let node = NodeId::new(node).unwrap();
    MemoryRange { node, zone, ..frames.into() }
}

/// An allocator with one zone of 4096 frames, [`MIN`] of them in reserve.
pub(crate) fn memory(answers: Answers) -> &'static Script {
    memory_of(&[range(0, 4096, 0, ZoneKind::Normal)], answers, |tuning| {
        tuning.zone.min_free = Auto::Fixed(MIN as u32);
    })
}

/// As [`memory`], with all frames except the reserve allocated as single frames.
pub(crate) fn full(answers: Answers) -> &'static Script {
    let memory = memory(answers);
    memory.allocate_all(page().no_wait());
    assert_eq!(memory.free(), MIN);
    memory.take_all_calls();
    memory
}

/// As [`memory`], with every second frame free. Much memory is free, but no block of order 1.
pub(crate) fn fragmented(answers: Answers) -> &'static Script {
    let memory = memory(answers);
    memory.allocate_all(page().inside_relief());
    memory.release_where(|pfn| pfn.get() % 2 == 0);
    memory.take_all_calls();
    memory
}

pub(crate) fn order(number: u8) -> Order {
    Order::new(number).unwrap()
}

pub(crate) fn movable(of: u8) -> Request {
    Request::new(order(of), MigrateType::Movable)
}

pub(crate) fn unmovable(of: u8) -> Request {
    Request::new(order(of), MigrateType::Unmovable)
}

pub(crate) fn page() -> Request {
    movable(0)
}

/// Allocates once on CPU 0. Returns the result and the calls of relief during the request.
pub(crate) fn ask(
    memory: &'static Script,
    request: Request,
) -> (Result<Block<'static>, framewright::AllocError>, Vec<Call>) {
    let result = memory.cpu(CpuId::new(0)).unwrap().alloc(request);
    (result, memory.take_calls())
}
