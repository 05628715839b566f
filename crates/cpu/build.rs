//! Compiles the BPF program.

fn main() {
    println!("cargo::rerun-if-changed=../scale/include");
    bpf_build::compile(&["node_clock"]);
}
