//! The connection of the library to a page cache: the `Relief` hooks, which reclaim pages of the
//! cache, and the thread of background reclaim.

use std::{
    panic::resume_unwind,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use framewright::{
    CpuId, Memory, NodeId, Order, ZoneId, ZoneKind,
    platform::{Need, Relief},
    reclaim::{Kswapd, NextStep, Pause, Reclaim, Throttle},
};

use super::{
    PageCache, PagerCpu, PagingError,
    cache::{Slot, locked},
    owner::Owner,
    pauses::Pauses,
    unmapped::Shooter,
};
use crate::{HostError, HostMachine, RegisteredCpu};

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "some pages may still be dirty"]
pub struct RunOutcome<R> {
    /// The return value of the body.
    pub value: R,
    /// Dirty pages. They are still in memory, and another run can [sync](PagerCpu::sync) them. Dropping the cache
    /// discards their contents.
    pub unwritten: u64,
}

impl<R> RunOutcome<R> {
    /// The return value of the body, if all pages are written.
    ///
    /// # Errors
    ///
    /// [`PagingError::LeftUnwritten`]: some pages are not written.
    pub fn written(self) -> Result<R, PagingError> {
        match self.unwritten {
            0 => Ok(self.value),
            pages => Err(PagingError::LeftUnwritten { pages }),
        }
    }
}

/// The state that the threads of a run share.
///
/// # Example
///
/// ```
/// use framewright::{Config, Layout, Memory, SideTables};
/// use framewright_host::{Backing, HostMachine, Metadata, paging::{PageCache, Pager, Store}};
/// # use std::{io, sync::Mutex};
/// # struct Disk(Mutex<Vec<u8>>);
/// # impl Store for Disk {
/// #     fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
/// #         into.copy_from_slice(&self.0.lock().unwrap()[page as usize * 4096..][..into.len()]);
/// #         Ok(())
/// #     }
/// #     fn write(&self, page: u32, from: &[u8]) -> io::Result<()> {
/// #         self.0.lock().unwrap()[page as usize * 4096..][..from.len()].copy_from_slice(from);
/// #         Ok(())
/// #     }
/// # }
///
/// // 8 MiB of frames, and a file of 16 MiB. The second CPU is for background reclaim.
/// let machine = HostMachine::builder().frames(2048).cpus(2).backing(Backing::MetadataOnly).build()?;
/// let map = [machine.frames().into()];
/// let config = Config::new(&map, 2).with_side_tables(SideTables::default().with_lru());
/// let mut cache = PageCache::new(&machine)?;
/// let disk = Disk(Mutex::new(vec![1; 16 << 20])); // a `Store`
/// let file = cache.add(Box::new(disk), 4096, 8)?;
/// let mut metadata = Metadata::for_layout(&Layout::new::<HostMachine>(&config)?)?;
/// let memory = Memory::new(machine, &config, metadata.as_mut())?;
///
/// let outcome = Pager::run(&memory, &cache, |pager| {
///     let me = pager.register()?;
///     let mut cpu = pager.cpu(&me)?;
///     for page in 0..4096 {
///         assert_eq!(cpu.read(file, page)?.word(0), 0x0101_0101_0101_0101);
///     }
///     cpu.write(file, 7)?.fill(2);
///     cpu.write(file, 9)?.write_bytes(4090, b"hello");
///     let mut bytes = [0; 6];
///     cpu.read(file, 9)?.read_bytes(4090, &mut bytes);
///     assert_eq!(&bytes, b"hello\x01");
///     cpu.sync_pages(file, 9..10)?; // only this page
///     cpu.sync(file)
/// })?;
/// outcome.written()??; // no page is dirty
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pager<'p, 'm> {
    pub(super) memory: &'p Memory<'m, HostMachine>,
    pub(super) cache: &'p PageCache,
    owner: Owner<'p>,
    pub(super) shooter: Shooter<'p, 'm>,
    waker: Waker,
    pauses: Pauses,
    stalls: AtomicU64,
}

impl<'p, 'm> Pager<'p, 'm> {
    /// Runs `body`, which starts threads that use the cache. During the run, requests without
    /// memory enter direct reclaim, and a thread reclaims in the background. That thread registers
    /// as the last CPU of the memory, so the caller must not register it. At the end, pages in
    /// memory stay there, and all deferred frames are freed.
    ///
    /// The end of a run writes no dirty pages. The result counts the pages that are still dirty,
    /// because the body did not [sync](PagerCpu::sync) them or because their write failed.
    ///
    /// # Errors
    ///
    /// [`PagingError`]: the cache was made for another machine than this memory's, the memory has
    /// no LRU lists, its last CPU is not free, or another pager runs with it.
    ///
    /// # Panics
    ///
    /// If `body` panics; or at the end, if a store panicked during a call by reclaim. The pages of
    /// such writes are still in memory and dirty.
    pub fn run<R>(
        memory: &'p Memory<'m, HostMachine>,
        cache: &'p PageCache,
        body: impl FnOnce(&Self) -> R,
    ) -> Result<RunOutcome<R>, PagingError> {
        if !cache.is_for(memory.platform()) {
            return Err(PagingError::OtherMachine);
        }
        if memory.lru().is_none() {
            return Err(PagingError::NoLists);
        }
        let (owner, shooter) = (Owner(cache), Shooter { memory, cache });
        let (waker, pauses, stalls) = (Waker::default(), Pauses::default(), AtomicU64::new(0));
        let pager = Self { memory, cache, owner, shooter, waker, pauses, stalls };
        let together = || {
            // Drops the panic of a store in an earlier run. That run did not resume it, because its
            // body panicked, too.
            drop(locked(&cache.panicked).take());
            let value = pager.together(body)?;
            let unwritten = cache.files().map(|file| cache.dirty(file)).sum();
            Ok(RunOutcome { value, unwritten })
        };
        let result = memory.platform().try_with_relief(&pager, together);
        let result = result.ok_or(PagingError::Running)?;
        let panicked = locked(&cache.panicked).take();
        match panicked {
            Some(panic) => resume_unwind(panic),
            None => result,
        }
    }

    /// Runs `body` and, concurrently, the thread of background reclaim.
    fn together<R>(&self, body: impl FnOnce(&Self) -> R) -> Result<R, PagingError> {
        thread::scope(|scope| {
            let (ready, is_ready) = mpsc::channel();
            let background = scope.spawn(|| self.reclaim_in_background(ready));
            // Stops the thread even if `body` panics, because the scope waits for it.
            let _stop = Stop(&self.waker);
            match is_ready.recv() {
                Ok(Ok(())) => Ok(body(self)),
                Ok(Err(error)) => Err(error),
                Err(mpsc::RecvError) => match background.join() {
                    Err(panic) => resume_unwind(panic),
                    Ok(()) => Err(PagingError::NoLists),
                },
            }
        })
    }

    /// Makes this thread a CPU of the memory's machine.
    ///
    /// # Errors
    ///
    /// [`PagingError::NoFreeCpu`]: all CPUs are in use, one of them by background reclaim; or
    /// [`PagingError::Host`].
    pub fn register(&self) -> Result<RegisteredCpu<'_>, PagingError> {
        self.memory.platform().register().map_err(|error| match error {
            HostError::NoFreeCpu { cpus } => PagingError::NoFreeCpu { cpus },
            error => PagingError::Host(error),
        })
    }

    /// The CPU of the pager that this thread is registered as.
    ///
    /// # Errors
    ///
    /// [`PagingError::Cpu`]: the token of the CPU is in use.
    pub fn cpu(&self, cpu: &RegisteredCpu<'_>) -> Result<PagerCpu<'_, 'm>, PagingError> {
        Ok(PagerCpu::new(self, self.memory.cpu(cpu.id())?))
    }

    /// The reclaim of the memory, for its statistics.
    #[must_use]
    pub fn reclaim(&self) -> Reclaim<'_, 'm, HostMachine> {
        // SAFETY: the frames of the cache belong to this memory, and unmapped pages are on the lists that the shooter
        // flushes.
        #[allow(unsafe_code)]
        let reclaim = unsafe { Reclaim::new(self.memory, &self.owner, &self.shooter) };
        reclaim.expect("a pager runs only with LRU lists")
    }

    /// Requests that entered direct reclaim.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }

    /// The thread of background reclaim.
    #[allow(unsafe_code)]
    fn reclaim_in_background(&self, ready: mpsc::Sender<Result<(), PagingError>>) {
        let me = CpuId::new(self.memory.cpu_count() - 1);
        let kswapd = self.reclaim().kswapd(NodeId::default());
        let claimed = self.memory.platform().register_as(me).map_err(PagingError::from);
        let claimed = claimed.and_then(|cpu| Ok((self.memory.cpu(me)?, cpu)));
        // The receiver is dropped only if `run` unwinds.
        let (mut token, _cpu) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => return ready.send(Err(error)).unwrap_or_default(),
        };
        let _ = ready.send(Ok(()));
        drop(ready);
        let Some(mut kswapd) = kswapd else { return };
        while !self.waker.is_ended() {
            let next = kswapd.step(&mut token);
            self.report_writes(me);
            match next {
                NextStep::Now => {}
                NextStep::AfterDelay => {
                    let delay = Duration::from_nanos(Kswapd::<HostMachine>::DELAY);
                    self.waker.wait(Some(delay));
                }
                NextStep::WhenWoken => self.waker.wait(None),
            }
        }
        // No later reclaim frees the deferred frames.
        self.shooter.flusher(me).drain_deferred(&mut |blocks| {
            blocks.for_each(|block| _ = token.free(block));
        });
    }

    /// Reports the results of writes to the library. Returns their number. No call of reclaim may
    /// be running on this thread, except in a pause.
    pub(super) fn report_writes(&self, cpu: CpuId) -> usize {
        let written = std::mem::take(&mut *locked(&self.cache.written));
        for &(frame, result) in &written {
            let slot = self.cache.number(frame).map(|number| self.cache.slot(number));
            if let Some(Slot::Holds(id)) = slot {
                self.cache.page(id).state.end_writeback();
            }
            self.reclaim().written(cpu, frame, result);
        }
        written.len()
    }
}

impl Relief for Pager<'_, '_> {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        if self.reclaim().wake(node, order, highest) {
            self.waker.wake();
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.stalls.fetch_add(1, Relaxed);
        let freed = self.reclaim().direct(need, frames);
        if self.report_writes(need.cpu) == 0 || freed > 0 {
            return freed;
        }
        // The written pages are clean now, so a second call can free them.
        self.reclaim().direct(need, frames)
    }

    fn pause(&self, pause: &Pause<'_>) {
        // Reclaim makes no other call during a pause, so this thread can report its writes now. The
        // pause may wait for these reports.
        self.report_writes(pause.cpu());
        self.pauses.wait(pause);
    }

    fn resume(&self, _: NodeId, _: Throttle) {
        self.pauses.resume();
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        Some(self.reclaim().reclaimable(zone))
    }
}

/// Wakes one thread.
#[derive(Default)]
struct Waker {
    state: Mutex<WakerState>,
    condvar: Condvar,
}

#[derive(Default)]
struct WakerState {
    woken: bool,
    ended: bool,
}

impl Waker {
    fn wake(&self) {
        locked(&self.state).woken = true;
        self.condvar.notify_one();
    }

    fn end(&self) {
        locked(&self.state).ended = true;
        self.condvar.notify_one();
    }

    fn is_ended(&self) -> bool {
        locked(&self.state).ended
    }

    /// Waits for a wake-up since the last wait, for the end, or until the time limit.
    fn wait(&self, most: Option<Duration>) {
        let mut state = locked(&self.state);
        let quiet = |state: &mut WakerState| !state.woken && !state.ended;
        if let Some(most) = most {
            state = match self.condvar.wait_timeout_while(state, most, quiet) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        } else {
            state = match self.condvar.wait_while(state, quiet) {
                Ok(state) => state,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        state.woken = false;
    }
}

/// Ends the thread of background reclaim when dropped.
struct Stop<'b>(&'b Waker);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn a_spurious_wake_up_does_not_end_a_wait() {
        let (waker, woken) = (Waker::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                for most in [None, Some(Duration::from_secs(600))] {
                    waker.wait(most);
                    assert!(woken.swap(false, SeqCst), "there was no wake-up");
                }
            });
            for _ in 0..2 {
                for _ in 0..20 {
                    waker.condvar.notify_all();
                    thread::sleep(Duration::from_millis(1));
                }
                woken.store(true, SeqCst);
                waker.wake();
                while woken.load(SeqCst) && !waits.is_finished() {
                    thread::yield_now();
                }
            }
        });
        waker.end();
        waker.wait(None);
        assert!(waker.is_ended());
    }
}
