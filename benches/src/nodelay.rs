//! TCP_NODELAY on sockets of a library that does not set it.

// A socket inside a library is known by its number only.
#![allow(unsafe_code)]

use crate::failure::{Failure, Result};

/// Sets TCP_NODELAY on every TCP socket of this process, and says on how many.
///
/// # Errors
/// The descriptors of this process cannot be listed.
pub fn force() -> Result<usize> {
    let listed = std::fs::read_dir("/proc/self/fd")
        .map_err(|error| Failure::new("list /proc/self/fd", error))?;
    let numbers = listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| set(*number));
    Ok(numbers.count())
}

fn set(descriptor: libc::c_int) -> bool {
    let on: libc::c_int = 1;
    // SAFETY: the option is read from `on`, whose size is given. Any number may be passed as
    // descriptor: what is not an open TCP socket is refused with an error.
    let outcome = unsafe {
        libc::setsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    outcome == 0
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_of_this_process_has_it_afterwards() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!stream.nodelay().unwrap());
        assert!(super::force().unwrap() >= 2);
        assert!(stream.nodelay().unwrap());
    }
}
