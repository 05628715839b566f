//! Arrays of the kernel's programs, mapped into this process.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use crate::Error;

/// The values of an array that can be mapped, each a plain record of 64-bit words.
#[derive(Debug)]
pub(crate) struct SharedArray<T> {
    start: NonNull<T>,
    count: usize,
    bytes: usize,
    of: PhantomData<T>,
}

// SAFETY: the pointer is to a shared mapping that this value owns; who reads and writes it says how it may.
unsafe impl<T: Send> Send for SharedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedArray<T> {}

impl<T> SharedArray<T> {
    /// Maps so many values.
    pub fn map(map: BorrowedFd, count: usize) -> Result<SharedArray<T>, Error> {
        const { assert!(size_of::<T>().is_multiple_of(8)) };
        let bytes = (count.max(1) * size_of::<T>()).next_multiple_of(4096);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, map, 0)
        };
        let start = start.map_err(|e| Error::Clocks(format!("a map cannot be mapped: {e}")))?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at 0");
        Ok(SharedArray { start, count, bytes, of: PhantomData })
    }

    /// Where a value is.
    pub fn at(&self, place: usize) -> *mut T {
        assert!(place < self.count, "there are {} values and not {}", self.count, place + 1);
        // SAFETY: `place` is one of those that are mapped.
        unsafe { self.start.as_ptr().add(place) }
    }
}

impl<T> Drop for SharedArray<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody keeps what `at` gave.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
