use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lidar_messages::Time;
use nix::{
    cmsg_space,
    errno::Errno,
    sys::{
        socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg},
        time::TimeSpec,
    },
};
use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};

use crate::packet::PACKET_LEN;

/// A UDP socket that tells when the kernel received a datagram and how many it dropped before.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    socket: Socket,
    /// One byte more than a packet, so that a longer datagram is seen to be one.
    buffer: [u8; PACKET_LEN + 1],
    control: Vec<u8>,
}

/// A datagram that was received.
#[derive(Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) data: &'a [u8],
    /// By the clock of this host.
    pub(crate) received: Time,
    pub(crate) from: Option<IpAddr>,
    /// Datagrams that the kernel has dropped since the socket was opened, for want of room.
    /// Only Linux tells.
    pub(crate) dropped: Option<u32>,
}

impl DatagramSocket {
    /// Binds `address` with room for `buffer` bytes and joins `group` on the network interface with
    /// this index, or on the one that the system chooses if that is 0.
    pub(crate) fn bind(
        address: SocketAddr,
        group: Option<IpAddr>,
        interface: u32,
        buffer: usize,
        timeout: Duration,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        // The kernel gives what it may, which `granted_buffer` tells.
        socket.set_recv_buffer_size(buffer)?;
        socket.set_read_timeout(Some(timeout))?;
        observe(&socket)?;
        // Others on this host may listen to the same group.
        socket.set_reuse_address(group.is_some())?;
        socket.bind(&address.into())?;
        match group {
            Some(IpAddr::V4(group)) => {
                let interface = InterfaceIndexOrAddress::Index(interface);
                socket.join_multicast_v4_n(&group, &interface)?;
            }
            Some(IpAddr::V6(group)) => socket.join_multicast_v6(&group, interface)?,
            None => {}
        }
        Ok(Self {
            socket,
            buffer: [0; PACKET_LEN + 1],
            control: cmsg_space!(u32, TimeSpec),
        })
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?.as_socket();
        address.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
    }

    /// Bytes that the kernel holds for the socket; a data packet takes about twice its length.
    pub(crate) fn granted_buffer(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// Waits for a datagram; `None` when the timeout is over.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Datagram<'_>>> {
        let fd = self.socket.as_raw_fd();
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let message = loop {
            let control = Some(&mut self.control[..]);
            match recvmsg::<SockaddrStorage>(fd, &mut parts, control, MsgFlags::empty()) {
                Ok(message) => break message,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        };
        let (mut received, mut dropped) = (None, None);
        for part in message.cmsgs()? {
            match part {
                #[cfg(target_os = "linux")]
                ControlMessageOwned::ScmTimestampns(stamp) => {
                    received = Some(Duration::from(stamp));
                }
                #[cfg(target_os = "linux")]
                ControlMessageOwned::RxqOvfl(count) => dropped = Some(count),
                _ => {}
            }
        }
        let from = message.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
            let v6 = address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip()));
            // An IPv4 host is the same one whatever the socket was bound to.
            v4.or(v6).map(|host| host.to_canonical())
        });
        let len = message.bytes;
        let now = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
        };
        let nanos = received.unwrap_or_else(now).as_nanos();
        Ok(Some(Datagram {
            data: &self.buffer[..len],
            received: Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            from,
            dropped,
        }))
    }
}

/// Asks for the stamps and the count of drops that come beside datagrams.
#[cfg(target_os = "linux")]
fn observe(socket: &Socket) -> io::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};

    setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(socket, sockopt::RxqOvfl, &1)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn observe(_: &Socket) -> io::Result<()> {
    Ok(())
}
