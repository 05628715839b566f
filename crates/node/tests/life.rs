//! The life of a node, with every runtime.

mod common;

use std::time::Duration;

use common::{text, with_each_runtime};

#[test]
fn a_node_runs_its_program_and_its_exit_is_heard() {
    with_each_runtime(|world| {
        let (node, output) = world.create(world.spec("one", "echo hello from $(hostname); exit 7"));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(text(output.try_clone().unwrap()), "", "nothing runs before the start");
        node.start().unwrap();
        let exit = world.enclosure().exits().recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!((exit.pid, exit.status.code()), (node.pid(), Some(7)));
        assert_eq!(node.wait(None), Some(exit.status));
        assert_eq!(text(output), "hello from one\n");
        node.delete().unwrap();
    });
}
