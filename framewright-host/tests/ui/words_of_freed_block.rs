use framewright::{Block, CpuToken};
use framewright_host::HostMachine;

fn stores_after_free<'m>(cpu: &mut CpuToken<'_, 'm, HostMachine>, block: Block<'m>) {
    let machine = cpu.platform();
    let words = machine.words(&block);
    let _ = cpu.free(block);
    words[0].store(1, std::sync::atomic::Ordering::Relaxed);
}

fn main() {}
