//! Metadata cannot be used for another memory while a block of the first lives.

use std::mem::MaybeUninit;

use framewright::{Config, Memory, MigrateType, Order, Platform, Request};

fn attack<P: Platform>(first: P, second: P, config: &Config<'_>, metadata: &mut [MaybeUninit<u8>]) {
    let memory = Memory::new(first, config, metadata).unwrap();
    let block = memory.alloc_bypassing_lists(Request::new(Order::ZERO, MigrateType::Movable));
    std::mem::forget(memory);
    let _ = Memory::new(second, config, metadata);
    let _ = block;
}

fn main() {}
