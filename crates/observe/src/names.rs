//! Names and kinds of system calls.

use syscalls::Sysno;

/// The name of a call; of one that is newer than this program, its number.
pub fn name_of(number: u16) -> String {
    Sysno::new(usize::from(number)).map_or_else(|| format!("call-{number}"), |call| call.name().to_owned())
}

/// The calls that give back how many bytes they moved.
pub const MOVE_BYTES: &[Sysno] = &[
    Sysno::read,
    Sysno::write,
    Sysno::pread64,
    Sysno::pwrite64,
    Sysno::readv,
    Sysno::writev,
    Sysno::preadv,
    Sysno::pwritev,
    Sysno::preadv2,
    Sysno::pwritev2,
    Sysno::sendto,
    Sysno::recvfrom,
    Sysno::sendmsg,
    Sysno::recvmsg,
    Sysno::sendfile,
    Sysno::splice,
    Sysno::tee,
    Sysno::vmsplice,
    Sysno::copy_file_range,
    Sysno::getrandom,
    Sysno::getdents64,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_of_their_manual() {
        assert_eq!([0, 1, 59, 231].map(name_of), ["read", "write", "execve", "exit_group"]);
        assert_eq!(name_of(510), "call-510");
    }
}
