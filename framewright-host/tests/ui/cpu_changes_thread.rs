use framewright_host::HostMachine;

fn registers_here_and_unpins_there(machine: &HostMachine) {
    std::thread::scope(|scope| {
        let cpu = machine.register().unwrap();
        scope.spawn(move || drop(cpu));
    });
}

fn main() {}
