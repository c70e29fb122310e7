use lidar_messages::Time;

use super::{PartialTurns, Statistics};
use crate::{
    model::Model,
    packet::{PACKET_LEN, PacketError, PacketView},
    turn::{Turn, TurnAssembler},
};

/// Makes turns of the datagrams of one sensor, and counts.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) statistics: Statistics,
    turns: TurnAssembler,
    /// That of the first good packet, and so of all.
    model: Option<Model>,
    partial: PartialTurns,
}

/// A datagram that is a data packet.
pub(super) struct Accepted<'a> {
    pub(super) data: &'a [u8; PACKET_LEN],
    pub(super) view: PacketView<'a>,
}

impl Intake {
    pub(super) fn new(cut: u16, partial: PartialTurns) -> Self {
        Self {
            statistics: Statistics::default(),
            turns: TurnAssembler::new(cut),
            model: None,
            partial,
        }
    }

    /// Looks at what came to the data port. `None` if it is no data packet, which is counted.
    ///
    /// # Errors
    ///
    /// If it is of a sensor that is not supported, or of a second one.
    pub(super) fn accept<'a>(
        &mut self,
        datagram: &'a [u8],
    ) -> Result<Option<Accepted<'a>>, PacketError> {
        let Ok(data) = <&[u8; PACKET_LEN]>::try_from(datagram) else {
            self.statistics.wrong_size += 1;
            return Ok(None);
        };
        match PacketView::new(data).and_then(|view| view.follows(&mut self.model)) {
            Ok(view) => Ok(Some(Accepted { data, view })),
            Err(reason @ (PacketError::ForeignModel { .. } | PacketError::MixedModels { .. })) => {
                Err(reason)
            }
            Err(_) => {
                self.statistics.damaged += 1;
                Ok(None)
            }
        }
    }

    /// Adds a packet, and returns the turn that it ends, unless that is to be left out.
    pub(super) fn push(&mut self, stamp: Time, packet: &Accepted<'_>) -> Option<Turn> {
        self.statistics.packets += 1;
        let turn = self.turns.push(stamp, packet.data, &packet.view);
        self.count(turn)
    }

    /// Ends the turn that is under way, if it has packets.
    pub(super) fn finish(&mut self) -> Option<Turn> {
        let turn = self.turns.finish();
        self.count(turn)
    }

    /// The same, and the sensor goes on.
    pub(super) fn interrupt(&mut self) -> Option<Turn> {
        let turn = self.turns.interrupt();
        self.count(turn)
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            late: self.turns.late(),
            clock_steps: self.turns.clock_steps(),
            ..self.statistics
        }
    }

    pub(super) fn model(&self) -> Option<Model> {
        self.model
    }

    fn count(&mut self, turn: Option<Turn>) -> Option<Turn> {
        let turn = turn?;
        self.statistics.lost += turn.lost;
        if turn.partial && self.partial == PartialTurns::Drop {
            self.statistics.left_out += 1;
            return None;
        }
        self.statistics.partial += u64::from(turn.partial);
        self.statistics.turns += 1;
        Some(turn)
    }
}
