//! The way of the frames from a vehicle in another process, over a Unix socket.
//!
//! A message is three lengths (`u32`, little-endian), then as many bytes each: a head in JSON, the
//! payload, and the object list. Against it come single bytes: each asks for one payload, so
//! scans cross over only while somebody looks.

use std::io;
use std::path::Path;

use bytes::Bytes;
use latency_timeline::Timeline;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use vehicle::{DataType, Frame, Objects, Source};

use crate::board::Board;

/// Largest part of a message, in bytes: more than any transport carries.
const MAX_PART: u32 = 1 << 30;

/// What asks for a payload.
const WANTED: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Head {
    seq: u64,
    start_ns: i64,
    data_type: DataType,
    timeline: Timeline,
    /// Who found the objects, and their age in nanoseconds.
    objects: Option<(Source, u64)>,
}

/// Sends the frames of a vehicle to a viewer in another process.
#[derive(Debug)]
pub struct Relay {
    done: oneshot::Receiver<()>,
}

impl Relay {
    /// Sends `frames` to the viewer that listens at `path`, from a thread of its own. When the viewer
    /// has gone, what comes is thrown away, so the vehicle does not notice.
    ///
    /// # Errors
    /// Nobody listens at `path`, or no thread can be made.
    pub fn start(path: &Path, frames: mpsc::Receiver<Frame>) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::connect(path)?;
        socket.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let socket = {
            let _inside = runtime.enter();
            UnixStream::from_std(socket)?
        };
        let (told, done) = oneshot::channel();
        let work = move || {
            runtime.block_on(pass(socket, frames));
            // Nobody may wait for it.
            let _ = told.send(());
        };
        std::thread::Builder::new()
            .name("view".to_owned())
            .spawn(work)?;
        Ok(Self { done })
    }

    /// Resolves when the last frame is sent; the sender of the frames must be gone. Cancel-safe.
    pub async fn finish(self) {
        // A thread that is gone sends no more.
        let _ = self.done.await;
    }
}

/// Passes frames on until there are no more.
async fn pass(socket: UnixStream, mut frames: mpsc::Receiver<Frame>) {
    let (mut requests, mut output) = socket.into_split();
    let mut request = [0; 64];
    let mut wanted = false;
    let mut asks = true;
    loop {
        let mut frame = tokio::select! {
            biased;
            count = requests.read(&mut request), if asks => {
                asks = matches!(count, Ok(1..));
                wanted |= asks;
                continue;
            }
            frame = frames.recv() => match frame {
                Some(frame) => frame,
                None => return,
            },
        };
        if !std::mem::take(&mut wanted) {
            frame.payload = Bytes::new();
        }
        if let Err(error) = send(&mut output, &frame).await {
            tracing::warn!(%error, "the view has gone; the vehicle goes on");
            while frames.recv().await.is_some() {}
        }
    }
}

async fn send(output: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> io::Result<()> {
    let objects = frame.objects.as_ref();
    let head = Head {
        seq: frame.seq,
        start_ns: frame.start_ns,
        data_type: frame.data_type,
        timeline: frame.timeline,
        objects: objects.map(|objects| {
            let age = u64::try_from(objects.age.as_nanos()).unwrap_or(u64::MAX);
            (objects.source, age)
        }),
    };
    let head = serde_json::to_vec(&head)?;
    let list = objects.map_or(&[][..], |objects| &objects.list);
    let parts = [&head[..], &frame.payload, list];
    for part in parts {
        let length = u32::try_from(part.len()).map_err(io::Error::other)?;
        output.write_all(&length.to_le_bytes()).await?;
    }
    for part in parts {
        output.write_all(part).await?;
    }
    Ok(())
}

/// The next frame; `None` at the end.
async fn receive(input: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut lengths = [0; 12];
    match input.read_exact(&mut lengths).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut parts = Vec::with_capacity(3);
    for length in lengths.as_chunks().0 {
        let length = u32::from_le_bytes(*length);
        if length > MAX_PART {
            let message = format!("a part of {length} B is longer than {MAX_PART} B");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        // Grows with what arrives.
        let mut part = Vec::new();
        let read = input.take(length.into()).read_to_end(&mut part).await?;
        if read < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        parts.push(Bytes::from(part));
    }
    let [head, payload, list]: [Bytes; 3] = parts
        .try_into()
        .map_err(|_| io::Error::other("three parts are read"))?;
    let head: Head = serde_json::from_slice(&head)?;
    Ok(Some(Frame {
        seq: head.seq,
        start_ns: head.start_ns,
        data_type: head.data_type,
        payload,
        objects: head.objects.map(|(source, age)| Objects {
            source,
            list,
            age: std::time::Duration::from_nanos(age),
        }),
        timeline: head.timeline,
    }))
}

/// Puts the frames of the one vehicle that connects on the board, until it ends.
pub(crate) async fn take(listener: UnixListener, board: &Board, stream: usize) {
    if let Err(error) = take_all(listener, board, stream).await {
        tracing::warn!(%error, "frames of a vehicle are not shown");
    }
}

async fn take_all(listener: UnixListener, board: &Board, stream: usize) -> io::Result<()> {
    let (connection, _) = listener.accept().await?;
    let (mut input, mut requests) = connection.into_split();
    let wanted = board.wanted(stream);
    let ask = async {
        loop {
            wanted.notified().await;
            // A vehicle that has ended needs no more requests.
            if requests.write_all(&[WANTED]).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let put = async {
        while let Some(frame) = receive(&mut input).await? {
            board.push(stream, frame);
        }
        Ok(())
    };
    tokio::select! {
        result = put => result,
        () = ask => Ok(()),
    }
}
