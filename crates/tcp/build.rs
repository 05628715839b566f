//! Compiles the BPF programs.

fn main() {
    bpf_build::compile(&["cubic", "timeout"]);
}
