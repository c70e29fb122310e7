use std::net::IpAddr;

use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, TransportSlice};

/// How frames of a capture begin, by the number of its link type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    RawIp,
    LinuxCooked,
    LinuxCooked2,
}

/// What a captured frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// A UDP datagram over IPv4 or IPv6, with VLAN tags or without.
    Udp {
        /// Where it came from.
        host: IpAddr,
        /// Port it was sent to.
        port: u16,
        /// What was sent. Shorter than sent if the capture cut it.
        payload: &'a [u8],
    },
    /// A part of a UDP datagram that was split on its way. Data packets fit a frame, so a network
    /// that splits them is set up wrongly.
    Fragment,
    /// Anything else.
    Other,
}

impl Link {
    pub(crate) fn new(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Ethernet,
            101 | 228 | 229 => Self::RawIp,
            113 => Self::LinuxCooked,
            276 => Self::LinuxCooked2,
            _ => return None,
        })
    }

    pub(crate) fn content(self, frame: &[u8]) -> Content<'_> {
        self.slice(frame)
            .and_then(|packet| udp(&packet))
            .unwrap_or(Content::Other)
    }

    fn slice(self, frame: &[u8]) -> Option<LaxSlicedPacket<'_>> {
        match self {
            Self::Ethernet => LaxSlicedPacket::from_ethernet(frame).ok(),
            Self::RawIp => LaxSlicedPacket::from_ip(frame).ok(),
            Self::LinuxCooked => cooked(frame, 14, 16),
            Self::LinuxCooked2 => cooked(frame, 0, 20),
        }
    }
}

/// A frame that tells its protocol at one place and starts with it at another.
fn cooked(frame: &[u8], protocol: usize, payload: usize) -> Option<LaxSlicedPacket<'_>> {
    let protocol = u16::from_be_bytes(*frame.get(protocol..)?.first_chunk()?);
    let payload = frame.get(payload..)?;
    Some(LaxSlicedPacket::from_ether_type(
        EtherType(protocol),
        payload,
    ))
}

fn udp<'a>(packet: &LaxSlicedPacket<'a>) -> Option<Content<'a>> {
    let (host, payload): (IpAddr, _) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.payload()),
        LaxNetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.payload()),
        LaxNetSlice::Arp(_) => return None,
    };
    if payload.fragmented {
        return (payload.ip_number == IpNumber::UDP).then_some(Content::Fragment);
    }
    match packet.transport.as_ref()? {
        TransportSlice::Udp(udp) => Some(Content::Udp {
            host,
            port: udp.destination_port(),
            payload: udp.payload(),
        }),
        _ => None,
    }
}
