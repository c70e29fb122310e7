//! The floors: bytes pushed by hand over TCP, directly and through a relay that stores a message
//! and forwards it. A frame is its length (4 B, little-endian) and its payload. Blocking sockets,
//! no delay, buffers that are kept.

use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use crate::end::{Asker, Ready};
use crate::failure::{Failure, Result};
use crate::payload::answer;

/// Largest frame taken, in bytes.
const LARGEST: usize = 16 << 20;

fn broken(error: std::io::Error) -> Failure {
    Failure::new("TCP", error)
}

fn write(stream: &mut TcpStream, payload: &[u8]) -> Result<()> {
    let head = (payload.len() as u32).to_le_bytes();
    let mut parts = [IoSlice::new(&head), IoSlice::new(payload)];
    let mut left = &mut parts[..];
    while !left.is_empty() {
        match stream.write_vectored(left) {
            Ok(0) => return Err(broken(std::io::ErrorKind::WriteZero.into())),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
    Ok(())
}

/// Reads a frame into `buffer`, which keeps its memory.
fn read<'a>(stream: &mut TcpStream, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).map_err(broken)?;
    let length = u32::from_le_bytes(head) as usize;
    if length > LARGEST {
        return Err(Failure::Broken(format!("TCP: a frame of {length} B")));
    }
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    let body = &mut buffer[..length];
    stream.read_exact(body).map_err(broken)?;
    Ok(body)
}

fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    Ok(stream)
}

fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = listener.accept().map_err(broken)?;
    stream.set_nodelay(true).map_err(broken)?;
    Ok(stream)
}

/// Listens on a free port of 127.0.0.1.
fn listen() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?;
    Ok((listener, address))
}

/// The asking end.
#[derive(Debug)]
pub struct Direct {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Direct {
    /// Connects to the other end or to a relay.
    ///
    /// # Errors
    /// Nobody listens at `address`.
    pub fn open(address: &str) -> Result<Self> {
        Ok(Self {
            stream: connect(address)?,
            buffer: Vec::new(),
        })
    }
}

impl Asker for Direct {
    fn send(&mut self, payload: &Bytes) -> Result<()> {
        write(&mut self.stream, payload)
    }

    fn receive(&mut self, _patience: Option<Duration>) -> Result<Option<usize>> {
        Ok(Some(read(&mut self.stream, &mut self.buffer)?.len()))
    }

    fn settings(&self) -> String {
        "std blocking sockets, nodelay, one connection".to_owned()
    }
}

/// The answering end: listens, or connects to the relay at `address` if there is one.
///
/// # Errors
/// The connection is lost.
pub fn echo(address: Option<&str>, ready: Ready<'_>) -> Result<()> {
    let mut stream = match address {
        Some(relay) => {
            let stream = connect(relay)?;
            ready(relay);
            stream
        }
        None => {
            let (listener, address) = listen()?;
            ready(&address.to_string());
            accept(&listener)?
        }
    };
    let mut buffer = Vec::new();
    loop {
        let length = read(&mut stream, &mut buffer)?.len();
        write(&mut stream, &answer(length))?;
    }
}

/// Passes frames on between every two ends that connect one after the other, each frame read as a
/// whole before it is written.
///
/// # Errors
/// Nobody can connect any more.
pub fn relay(ready: Ready<'_>) -> Result<()> {
    let (listener, address) = listen()?;
    ready(&address.to_string());
    loop {
        let (one, other) = (accept(&listener)?, accept(&listener)?);
        let one_back = one.try_clone().map_err(broken)?;
        let other_back = other.try_clone().map_err(broken)?;
        thread::spawn(move || pass(one, other));
        thread::spawn(move || pass(other_back, one_back));
    }
}

/// Passes frames on until one of the ends is gone; then the other is told.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = Vec::new();
    while let Ok(frame) = read(&mut from, &mut buffer) {
        if write(&mut to, frame).is_err() {
            break;
        }
    }
    // It may be gone too.
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{CLOUD, payload};

    #[test]
    fn a_round_trip_comes_back_directly_and_through_the_relay() {
        let (told, address) = std::sync::mpsc::sync_channel(1);
        thread::spawn(move || echo(None, &mut |at| told.send(at.to_owned()).unwrap()));
        let mut direct = Direct::open(&address.recv().unwrap()).unwrap();
        direct.meet().unwrap();
        direct.round_trip(&payload(CLOUD)).unwrap();

        let (told, address) = std::sync::mpsc::sync_channel(1);
        thread::spawn(move || relay(&mut |at| told.send(at.to_owned()).unwrap()));
        let address = address.recv().unwrap();
        let relay = address.clone();
        thread::spawn(move || echo(Some(&relay), &mut |_| ()));
        let mut through = Direct::open(&address).unwrap();
        through.meet().unwrap();
        through.round_trip(&payload(CLOUD)).unwrap();
    }
}
