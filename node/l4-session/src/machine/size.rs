//! How many bytes a value takes.

use std::io;

use serde::Serialize;

/// Bytes that a value takes in a stored task.
pub(crate) fn stored_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be encoded fits nowhere.
    ciborium::into_writer(value, &mut count).map_or(usize::MAX, |()| count.0)
}
