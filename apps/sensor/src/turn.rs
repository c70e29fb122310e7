use lidar_messages::{Header, Packets, PacketsBuilder, Time, VelodyneScan};

use crate::{
    continuity::{Continuity, Passage, advance},
    packet::{BLOCKS, FULL_TURN, PACKET_LEN, PacketView},
};

/// Frame of scans made here.
pub const FRAME_ID: &str = "velodyne";

/// Packets after which a turn ends even if the cut was not reached: a turn of an HDL-32E at 300 rpm
/// with dual returns has 724. A sensor that stands still must not fill the memory.
pub const MAX_PACKETS: usize = 768;

/// Packets of a turn at 600 rpm, single return.
const USUAL_PACKETS: usize = 151;

/// An azimuth that goes back by no more than this, in hundredths of a degree, is jitter of the
/// encoder and not nearly a full turn.
const JITTER: u16 = 100;

/// Packets from one passing of the cut to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Stamped with its first packet, numbered from 0.
    pub scan: VelodyneScan,
    /// Whether packets are missing: at its start or end, as in the first and last turn of most
    /// recordings, or in between.
    pub partial: bool,
    /// Packets that never arrived, by the sensor's clock. Those lost at the cut count for the turn
    /// that ends there; the next one is partial, too.
    pub lost: u64,
}

/// Assembles turns from packets.
///
/// A turn ends with the packet in which the azimuth passes the cut, so packets stay whole and at
/// most one of them reaches into the next turn. A gap in the field of view may hide the cut: then
/// the first block beyond the gap passes it.
///
/// A packet that arrives after a later one is kept in the turn that is under way, and passes
/// nothing.
#[derive(Debug)]
pub struct TurnAssembler {
    cut: u16,
    seq: u32,
    last_azimuth: Option<u16>,
    start: Time,
    packets: PacketsBuilder,
    partial: bool,
    lost: u64,
    continuity: Continuity,
    late: u64,
    clock_steps: u64,
}

impl TurnAssembler {
    /// Cuts at `cut` hundredths of a degree; 0 is where the azimuth wraps. Full turns are
    /// subtracted.
    pub fn new(cut: u16) -> Self {
        Self {
            cut: cut % FULL_TURN,
            seq: 0,
            last_azimuth: None,
            start: Time::default(),
            packets: PacketsBuilder::default(),
            partial: false,
            lost: 0,
            continuity: Continuity::default(),
            late: 0,
            clock_steps: 0,
        }
    }

    /// Packets so far that arrived after later ones.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Jumps of the sensor's clock so far: the clock of the host does not tell of as much time, so
    /// packets lost there cannot be counted.
    pub fn clock_steps(&self) -> u64 {
        self.clock_steps
    }

    /// Adds a packet, which `view` is of. Returns the turn that it ends, or that ended before it.
    pub fn push(
        &mut self,
        stamp: Time,
        data: &[u8; PACKET_LEN],
        view: &PacketView<'_>,
    ) -> Option<Turn> {
        let mut ended = None;
        let first = view.azimuth(0);
        let mut lost = 0;
        match self.continuity.follow(stamp, view) {
            Passage::Next => {}
            Passage::Lost(packets) => lost = packets,
            Passage::ClockStep => self.clock_steps += 1,
            Passage::Late => {
                self.late += 1;
                self.add(stamp, data);
                return self.end_if_full();
            }
        }
        self.lost += lost;
        match self.last_azimuth {
            Some(last) if self.passes_cut(last, first) => {
                ended = self.end(false);
                self.partial = lost > 0;
            }
            Some(_) => {}
            // A recording that starts within a packet of the cut starts with a whole turn.
            None => {
                let packet = advance(first, view.azimuth(BLOCKS - 1));
                self.partial = advance(self.cut, first) > packet.saturating_mul(2);
            }
        }
        self.add(stamp, data);
        let mut last = first;
        let mut passed = false;
        for block in 1..BLOCKS {
            let azimuth = view.azimuth(block);
            passed |= self.passes_cut(last, azimuth);
            last = azimuth;
        }
        self.last_azimuth = Some(last);
        if passed {
            // Passing the cut twice within a packet is no rotation; then the second time is ignored.
            return ended.or_else(|| self.end(false));
        }
        ended.or_else(|| self.end_if_full())
    }

    /// Ends the turn that is under way, if it has packets, as a partial one. What comes next is of
    /// another recording.
    pub fn finish(&mut self) -> Option<Turn> {
        self.continuity = Continuity::default();
        self.interrupt()
    }

    /// Ends the turn that is under way, if it has packets, as a partial one, because the sensor is
    /// silent. What it sends until the next packet is lost.
    pub fn interrupt(&mut self) -> Option<Turn> {
        self.last_azimuth = None;
        self.end(true)
    }

    fn add(&mut self, stamp: Time, data: &[u8; PACKET_LEN]) {
        if self.packets.is_empty() {
            self.start = stamp;
            self.packets = Packets::builder(USUAL_PACKETS);
        }
        self.packets.push(stamp, data);
    }

    fn end_if_full(&mut self) -> Option<Turn> {
        if self.packets.len() < MAX_PACKETS {
            return None;
        }
        let ended = self.end(true);
        self.partial = true;
        ended
    }

    fn end(&mut self, cut_short: bool) -> Option<Turn> {
        let lost = std::mem::take(&mut self.lost);
        let partial = std::mem::take(&mut self.partial) || cut_short || lost > 0;
        if self.packets.is_empty() {
            return None;
        }
        let header = Header {
            seq: self.seq,
            stamp: self.start,
            frame_id: FRAME_ID.into(),
        };
        self.seq = self.seq.wrapping_add(1);
        let packets = std::mem::take(&mut self.packets).build();
        Some(Turn {
            scan: VelodyneScan { header, packets },
            partial,
            lost,
        })
    }

    fn passes_cut(&self, from: u16, to: u16) -> bool {
        let moved = advance(from, to);
        let to_cut = advance(from, self.cut);
        moved < FULL_TURN - JITTER && to_cut > 0 && to_cut <= moved
    }
}
