use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use lidar_messages::Time;

use super::{PartialTurns, SourceError, Statistics, intake::Intake};
use crate::{
    model::Model,
    packet::{DATA_PORT, PacketView},
    socket::DatagramSocket,
    turn::Turn,
};

const NANOS_PER_HOUR: u64 = 3_600_000_000_000;

/// Whose clock stamps are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StampClock {
    /// That of this host, when its kernel received the packet.
    #[default]
    Host,
    /// That of the sensor, which tells the time within the hour; the hour is the one with which it
    /// is nearest to the host's clock. Only a sensor that is synchronised, by GPS or PTP, tells the
    /// time; another one tells how long it has been on.
    Sensor,
}

/// How a sensor is listened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveConfig {
    /// Address and UDP port that its packets are sent to. Port 0 takes a free one.
    pub bind: SocketAddr,
    /// Multicast group to join.
    pub group: Option<IpAddr>,
    /// Index of the network interface on which it is joined; 0 lets the system choose.
    pub interface: u32,
    /// Address of the sensor, if packets of others are to be left out.
    pub host: Option<IpAddr>,
    /// Azimuth at which turns are cut, in hundredths of a degree.
    pub cut: u16,
    /// Whose clock stamps are of.
    pub clock: StampClock,
    /// Bytes that the kernel is asked to hold, of which a data packet takes about two times 1206.
    pub buffer: usize,
    /// How long nothing may come.
    pub silence: Duration,
    /// What becomes of partial turns.
    pub partial: PartialTurns,
    /// Turns after which the source ends, if it is to.
    pub turns: Option<u64>,
}

impl Default for LiveConfig {
    fn default() -> Self {
        Self {
            // Sensors broadcast unless they were told otherwise, which only this address receives.
            bind: SocketAddr::from((Ipv4Addr::UNSPECIFIED, DATA_PORT)),
            group: None,
            interface: 0,
            host: None,
            cut: 0,
            clock: StampClock::default(),
            buffer: 4 << 20,
            silence: Duration::from_secs(2),
            partial: PartialTurns::default(),
            turns: None,
        }
    }
}

/// Turns of a sensor that is listened to.
#[derive(Debug)]
pub struct Live {
    config: LiveConfig,
    socket: DatagramSocket,
    address: SocketAddr,
    intake: Intake,
    /// The kernel's count of drops, as told last. It starts over after 2^32.
    dropped: u32,
    last: Time,
}

impl Live {
    /// Opens the socket. From here on nothing is missed that the buffer has room for.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound or the group not be joined.
    pub fn open(config: LiveConfig) -> Result<Self, SourceError> {
        let listen = || {
            let socket = DatagramSocket::bind(
                config.bind,
                config.group,
                config.interface,
                config.buffer,
                config.silence,
            )?;
            let address = socket.local_address()?;
            Ok((socket, address))
        };
        let (socket, address) = listen().map_err(|reason| SourceError::Bind {
            address: config.bind,
            reason,
        })?;
        Ok(Self {
            intake: Intake::new(config.cut, config.partial),
            config,
            socket,
            address,
            dropped: 0,
            last: Time::default(),
        })
    }

    /// Address and port that are listened to.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes that the kernel holds, which may be fewer than were asked for: on Linux no more than
    /// twice `net.core.rmem_max`.
    ///
    /// # Errors
    ///
    /// If the system does not tell.
    pub fn granted_buffer(&self) -> io::Result<usize> {
        self.socket.granted_buffer()
    }

    /// Waits for the next turn. `None` after as many as were asked for.
    ///
    /// When the sensor falls silent, the turn that was under way comes as a partial one. Silence is no
    /// end: the next call waits again.
    ///
    /// # Errors
    ///
    /// If nothing comes, the socket fails, or another sensor is heard.
    pub fn next_scan(&mut self) -> Result<Option<Turn>, SourceError> {
        let turns = self.intake.statistics().turns;
        if self.config.turns.is_some_and(|wanted| turns >= wanted) {
            return Ok(None);
        }
        let address = self.address;
        loop {
            let datagram = self.socket.receive();
            let datagram = datagram.map_err(|reason| SourceError::Receive { address, reason })?;
            let Some(datagram) = datagram else {
                return match self.intake.interrupt() {
                    Some(turn) => Ok(Some(turn)),
                    None => Err(SourceError::Silent {
                        address,
                        silence: self.config.silence,
                        statistics: self.statistics(),
                    }),
                };
            };
            if let Some(dropped) = datagram.dropped {
                let more = dropped.wrapping_sub(self.dropped);
                self.intake.statistics.dropped += u64::from(more);
                self.dropped = dropped;
            }
            if self.config.host.is_some() && datagram.from != self.config.host {
                self.intake.statistics.other_host += 1;
                continue;
            }
            let packet = match self.intake.accept(datagram.data) {
                Ok(Some(packet)) => packet,
                Ok(None) => continue,
                Err(reason) => return Err(SourceError::Sensor { address, reason }),
            };
            let stamp = match self.config.clock {
                StampClock::Host => datagram.received,
                StampClock::Sensor => sensor_time(datagram.received, &packet.view),
            };
            self.last = self.last.max(stamp);
            if let Some(turn) = self.intake.push(self.last, &packet) {
                return Ok(Some(turn));
            }
        }
    }

    /// What was used and skipped so far.
    pub fn statistics(&self) -> Statistics {
        self.intake.statistics()
    }

    /// What is heard, once a data packet was received.
    pub fn model(&self) -> Option<Model> {
        self.intake.model()
    }
}

/// The time of the sensor that is nearest to that of the host.
fn sensor_time(host: Time, view: &PacketView<'_>) -> Time {
    let host = host.as_nanos();
    let within = u64::from(view.timestamp_us()) * 1_000 % NANOS_PER_HOUR;
    let earliest = (host + NANOS_PER_HOUR / 2).saturating_sub(within);
    Time::from_nanos(earliest / NANOS_PER_HOUR * NANOS_PER_HOUR + within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Block, Packet, ReturnMode};

    #[test]
    fn the_hour_of_the_sensor_is_the_nearest() {
        let hour = 3_600_u64;
        for (host, micros, seconds) in [
            (10 * hour + 5, 4_000_000, 10 * hour + 4),
            (10 * hour + 5, 3_599_000_000, 10 * hour - 1),
            (10 * hour - 1, 2_000_000, 10 * hour + 2),
            (10 * hour, 0, 10 * hour),
            (0, 3_599_000_000, 3_599),
        ] {
            let packet = Packet {
                model: Model::Vlp32c,
                blocks: [Block::default(); 12],
                timestamp_us: micros,
                return_mode: ReturnMode::Last,
            };
            let data = packet.encode();
            let view = PacketView::new(&data).expect("an encoded packet is a good packet");
            let time = sensor_time(Time::from_nanos(host * 1_000_000_000), &view);
            assert_eq!(time.as_nanos(), seconds * 1_000_000_000, "{host} {micros}");
        }
    }
}
