//! A process is killed while it writes pages back. Afterwards no page on disk is torn, and all data for which a sync
//! returned success is on disk.

#![forbid(unsafe_code)]

#[path = "outside/setup.rs"]
#[allow(dead_code, reason = "the store of the other tests is in memory")]
mod setup;

use framewright_host::paging::{FileStore, PageCache, Pager, RunOutcome};
use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use setup::{builder, with_memory};

/// There are twice as many pages as frames, so that reclaim writes, too.
const PAGES: u32 = 8192;
const PAGE: usize = 4096;
/// The number of killed processes.
const KILLS: u32 = 8;
/// The environment variables that make this program behave as the process to kill.
const FILE: &str = "FRAMEWRIGHT_KILLED_FILE";
const FROM: &str = "FRAMEWRIGHT_KILLED_FROM";

fn value(page: u32, version: u32) -> u64 {
    u64::from(version) << 32 | u64::from(page)
}

/// Repeatedly stores a higher version to all pages, syncs, and prints the synced version, until it is killed. (This is
/// not a test: it does nothing unless the test below starts it.)
#[test]
fn process_to_be_killed() {
    let (Ok(file), Ok(from)) = (env::var(FILE), env::var(FROM)) else { return };
    let machine = builder(2).build().unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let store = FileStore::open(Path::new(&file)).unwrap();
    let file = cache.add(Box::new(store), PAGES, 8).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            for version in from.parse::<u32>().unwrap().. {
                for page in 0..PAGES {
                    pager_cpu.write(file, page).unwrap().fill(value(page, version));
                }
                say(&format!("writing {version}"));
                pager_cpu.sync(file).unwrap();
                say(&format!("synced {version}"));
            }
        });
        run.and_then(RunOutcome::written).unwrap();
    });
}

/// Prints a line at once, for the process that reads and kills this one.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// The version of every page. All words of a page must agree.
fn versions(file: &Path) -> Vec<u32> {
    let bytes = fs::read(file).unwrap();
    assert_eq!(bytes.len(), PAGES as usize * PAGE);
    let words = |page: &[u8]| -> Vec<u64> {
        page.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    };
    let pages = (0..).zip(bytes.chunks_exact(PAGE)).map(|(page, bytes)| {
        let words = words(bytes);
        let version = (words[0] >> 32) as u32;
        let expected = if version == 0 { 0 } else { value(page, version) };
        assert!(words.iter().all(|&word| word == expected), "page {page} is not whole");
        version
    });
    pages.collect()
}

/// Starts a process that stores versions from this one on, and kills it at a random time after the start of a
/// sync. Returns its last synced version, if there is one.
fn kill_one(file: &Path, from: u32, random: &mut fastrand::Rng) -> Option<u32> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "process_to_be_killed", "--nocapture", "--test-threads", "1"])
        .env(FILE, file)
        .env(FROM, from.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (after, mut line) = (from + random.u32(..3), String::new());
    let begins = format!("writing {after}");
    while !line.contains(&begins) {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the process ended by itself");
    }
    // A sync lasts a few tens of milliseconds.
    thread::sleep(Duration::from_micros(random.u64(..30_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let synced = rest.lines().filter_map(|line| line.strip_prefix("synced ")?.parse().ok()).max();
    synced.or((after > from).then(|| after - 1))
}

#[test]
fn after_a_kill_synced_pages_are_on_disk_and_no_page_is_torn() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("pages");
    fs::write(&path, vec![0; PAGES as usize * PAGE]).unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut from, mut torn) = (1, 0);
    for _ in 0..KILLS {
        let synced = kill_one(&path, from, &mut random);
        let versions = versions(&path);
        let (oldest, newest) = (*versions.iter().min().unwrap(), *versions.iter().max().unwrap());
        let synced = synced.unwrap_or(0);
        assert!(oldest >= synced, "{synced} was synced, and a page is of version {oldest}");
        torn += u32::from(oldest < newest);
        from = newest + 1;
    }
    println!("{torn} of {KILLS} were killed with pages of several versions on disk");
    assert!(torn > 0, "no process was killed during a sync");
}
