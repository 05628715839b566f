//! Compiles the BPF program.

fn main() {
    bpf_build::compile(&["calls"]);
}
