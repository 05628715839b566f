//! Modules of the program in nodes. They are compiled twice: into this library, where they are checked and tested, and
//! by `build.rs` into a static program, from `program.rs`.

mod options;
mod packet;
mod rows;
mod sink;
mod source;

#[allow(unused_imports, reason = "the program has no use for it, the library has")]
pub(crate) use packet::HEADER;

/// Does what the program does with these arguments, in the present process.
///
/// # Errors
/// Which argument is wrong and what would be right, or what the system refused.
pub fn run(words: &[String]) -> Result<(), String> {
    match words.first().map(String::as_str) {
        Some("source") => source::run(&words[1..]),
        Some("sink") => sink::run(&words[1..]),
        _ => Err("write `source` or `sink`, and the options of one of them".into()),
    }
}
