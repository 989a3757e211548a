//! A store with a fault at one call. The tests try each kind of fault at each call of a run. After
//! each fault, no data is lost, no page stays locked, and all frames are freed.

#![forbid(unsafe_code)]

#[path = "outside/setup.rs"]
mod setup;

use framewright::{CpuId, NodeId};
use framewright_host::paging::{
    FileId, PageCache, Pager, PagerCpu, PagingError, RunOutcome, Store,
};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use setup::{Words, builder, with_memory};

const PAGES: u32 = 24;

/// The kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// Panics before the operation.
    Panic,
    /// Panics after the operation.
    PanicAfter,
    /// Returns an error without doing the operation.
    Refuse,
    /// Does half of the operation, and then returns an error.
    Half,
    /// Waits until another thread has reclaimed everything reclaimable.
    Reclaimed,
}

const FAULTS: [Fault; 5] =
    [Fault::Panic, Fault::PanicAfter, Fault::Refuse, Fault::Half, Fault::Reclaimed];

/// The faulty store.
struct Faulty {
    words: Words,
    calls: Arc<AtomicU64>,
    at: u64,
    fault: Fault,
    /// Requests reclaim of everything, and receives its completion.
    reclaim: Mutex<(Sender<()>, Receiver<()>)>,
}

/// The part of an operation that is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    Half,
}

impl Faulty {
    /// Does an operation, with the fault if this is the chosen call.
    fn call(&self, mut run: impl FnMut(Part) -> io::Result<()>) -> io::Result<()> {
        if self.calls.fetch_add(1, SeqCst) != self.at {
            return run(Part::Whole);
        }
        let broken = || Err(io::Error::other("a fault"));
        match self.fault {
            Fault::Panic => panic!("a fault"),
            Fault::PanicAfter => {
                run(Part::Whole)?;
                panic!("a fault");
            }
            Fault::Refuse => broken(),
            Fault::Half => {
                run(Part::Half)?;
                broken()
            }
            Fault::Reclaimed => {
                let reclaim = self.reclaim.lock().unwrap_or_else(PoisonError::into_inner);
                // The receiver is dropped in the final cleanup.
                if reclaim.0.send(()).is_ok() {
                    let _ = reclaim.1.recv();
                }
                run(Part::Whole)
            }
        }
    }
}

impl Store for Faulty {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        self.call(|part| match part {
            Part::Whole => self.words.read(page, into),
            Part::Half => {
                let half = into.len() / 2;
                into[..half].fill(0xee);
                Ok(())
            }
        })
    }

    /// Half a write leaves neither the old contents nor the new, as after a loss of power.
    fn write(&self, page: u32, from: &[u8]) -> io::Result<()> {
        self.call(|part| match part {
            Part::Whole => self.words.write(page, from),
            Part::Half => self.words.write(page, &vec![0xee; from.len()]),
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.call(|_| Ok(()))
    }
}

/// Repeats an operation until it succeeds, at most three times.
fn persist<R>(mut what: impl FnMut() -> Result<R, PagingError>) -> R {
    for _ in 0..2 {
        if let Ok(Ok(done)) = catch_unwind(AssertUnwindSafe(&mut what)) {
            return done;
        }
    }
    what().unwrap()
}

/// Stores to pages, reclaims them, and reads them again.
fn work(pager: &Pager<'_, '_>, pager_cpu: &mut PagerCpu<'_, '_>, file: FileId) {
    let reclaim = || {
        pager.reclaim().lru().drain_all();
        for _ in 0..6 {
            pager.reclaim().shrink_node(CpuId::new(0), NodeId::default(), 64);
        }
    };
    for round in 1..3 {
        for page in (0..PAGES).step_by(2) {
            persist(|| pager_cpu.write(file, page).map(|mut guard| guard.fill(value(page, round))));
        }
        reclaim();
        for page in 0..PAGES {
            let expected = if page % 2 == 0 { value(page, round) } else { u64::from(page) };
            let found = persist(|| {
                pager_cpu.read(file, page).map(|guard| guard.words().all(|word| word == expected))
            });
            assert!(found, "page {page} in round {round}");
        }
        if round == 1 {
            persist(|| pager_cpu.sync(file));
        }
    }
    reclaim();
}

fn value(page: u32, round: u64) -> u64 {
    round << 32 | u64::from(page)
}

/// Runs with a fault at call `at`. Returns the number of calls.
fn run(at: u64, fault: Fault) -> u64 {
    let machine = builder(3).build().unwrap();
    let (words, calls) = (Words::new(PAGES), Arc::<AtomicU64>::default());
    let ((ask, asked), (answer, answered)) = (channel(), channel());
    let store = Faulty {
        words: words.clone(),
        calls: calls.clone(),
        at,
        fault,
        reclaim: Mutex::new((ask, answered)),
    };
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(store), PAGES, 4).unwrap();
    with_memory(machine, |memory| {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            Pager::run(memory, &cache, |pager| {
                thread::scope(|scope| {
                    let (asked, answer) = (asked, answer);
                    let over = Arc::new(());
                    let is_over = Arc::downgrade(&over);
                    scope.spawn(move || {
                        while is_over.strong_count() > 0 {
                            if asked.recv_timeout(std::time::Duration::from_millis(2)).is_ok() {
                                pager.reclaim().lru().drain_all();
                                let node = NodeId::default();
                                for _ in 0..6 {
                                    pager.reclaim().shrink_node(CpuId::new(1), node, 64);
                                }
                                let _ = answer.send(());
                            }
                        }
                    });
                    let me = pager.register().unwrap();
                    work(pager, &mut pager.cpu(&me).unwrap(), file);
                    drop(over);
                });
            })
        }));
        if let Ok(ran) = ran {
            let RunOutcome { unwritten, .. } = ran.unwrap();
            assert_eq!(unwritten, cache.dirty(file));
        } else {
            assert!(matches!(fault, Fault::Panic | Fault::PanicAfter), "{fault:?} at {at}");
        }
        for page in (0..PAGES).step_by(2) {
            let lost = cache.dirty(file) == 0 && words.stored(page) != value(page, 2);
            assert!(!lost, "page {page} is lost: {fault:?} at {at}");
        }
        // The fault is over: everything is written and reclaimed.
        let end = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            persist(|| pager_cpu.evict_all());
        });
        end.and_then(RunOutcome::written).unwrap();
        assert_eq!((cache.resident(file), cache.in_memory(file)), (0, 0), "{fault:?} at {at}");
        memory.drain_all();
        assert_eq!(memory.free(), memory.managed(), "{fault:?} at {at}");
    });
    for page in 0..PAGES {
        let expected = if page % 2 == 0 { value(page, 2) } else { u64::from(page) };
        assert_eq!(words.stored(page), expected, "{fault:?} at {at}");
    }
    calls.load(SeqCst)
}

#[test]
fn a_store_may_go_wrong_at_any_call() {
    // The test expects hundreds of panics, and does not print them.
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("a fault") {
            eprintln!("{info}");
        }
    }));
    let try_all = |fault| {
        let mut at = 0;
        while run(at, fault) > at {
            at += 1;
        }
        assert!(at > 40, "only {at} calls were tried");
    };
    // Most of a run is waiting, so the kinds of fault are tried side by side.
    thread::scope(|scope| {
        for fault in FAULTS {
            scope.spawn(move || try_all(fault));
        }
    });
}
