use thiserror::Error;

use crate::model::Model;

/// Blocks in a data packet.
pub const BLOCKS: usize = 12;

/// Returns in a block.
pub const SLOTS: usize = 32;

/// Bytes of a data packet.
pub const PACKET_LEN: usize = 1206;

/// Bytes of the position packet that a sensor sends beside its data.
pub const POSITION_PACKET_LEN: usize = 512;

/// UDP port of data packets unless set otherwise.
pub const DATA_PORT: u16 = 2368;

/// UDP port of position packets unless set otherwise.
pub const POSITION_PORT: u16 = 8308;

/// Azimuths are counted in hundredths of a degree, clockwise seen from above, 0 is forward.
pub const FULL_TURN: u16 = 36_000;

const BLOCK_LEN: usize = 4 + 3 * SLOTS;
const BLOCK_FLAG: [u8; 2] = [0xff, 0xee];

/// Which return of a pulse the sensor reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReturnMode {
    /// The strongest.
    Strongest = 0x37,
    /// The last.
    Last = 0x38,
    /// Both: of two blocks with the same azimuth the first holds the last return, the second the
    /// strongest.
    Dual = 0x39,
}

impl ReturnMode {
    /// Blocks that one firing of the lasers fills.
    pub fn blocks_per_firing(self) -> usize {
        match self {
            Self::Strongest | Self::Last => 1,
            Self::Dual => 2,
        }
    }
}

/// Why bytes are no data packet of a [`Model`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Of another length.
    #[error("a packet has {len} B; a data packet has {PACKET_LEN} B")]
    Length {
        /// Bytes received.
        len: usize,
    },
    /// From another Velodyne sensor.
    #[error(
        "the packet is from a {name} (product byte {product:#04x}); VLP-32C, VLP-16 and HDL-32E \
         are supported"
    )]
    ForeignModel {
        /// Its name.
        name: &'static str,
        /// Its product byte.
        product: u8,
    },
    /// With a product byte no sensor known here has.
    #[error(
        "product byte {product:#04x} is unknown; VLP-32C (0x28), VLP-16 (0x22) and HDL-32E (0x21) \
         are supported"
    )]
    UnknownModel {
        /// The byte.
        product: u8,
    },
    /// From another sensor than the packets before it.
    #[error("the packet is from a {model}, those before it are from a {before}; give one sensor")]
    MixedModels {
        /// The packet's model.
        model: Model,
        /// The model of the others.
        before: Model,
    },
    /// With a return mode that is not defined.
    #[error("return mode {mode:#04x} is unknown; sensors have 0x37, 0x38 and 0x39")]
    ReturnMode {
        /// The byte.
        mode: u8,
    },
    /// A block does not start with its flag.
    #[error("block {block} starts with {found:02x?} in place of [ff, ee]; the packet is damaged")]
    Flag {
        /// Number of the block.
        block: usize,
        /// Its first two bytes.
        found: [u8; 2],
    },
    /// A block has an azimuth of a full turn or more.
    #[error("block {block} has azimuth {azimuth}; 35999 hundredths of a degree is the largest")]
    Azimuth {
        /// Number of the block.
        block: usize,
        /// The azimuth found.
        azimuth: u16,
    },
}

fn foreign_name(product: u8) -> Option<&'static str> {
    Some(match product {
        0x24 => "VLP-16 Hi-Res (Puck Hi-Res)",
        0x31 => "Velarray",
        0xa1 => "VLS-128 (Alpha Prime)",
        _ => return None,
    })
}

/// A data packet read in place.
#[derive(Debug, Clone, Copy)]
pub struct PacketView<'a> {
    blocks: &'a [[u8; BLOCK_LEN]; BLOCKS],
    timestamp_us: u32,
    return_mode: ReturnMode,
    model: Model,
}

impl<'a> PacketView<'a> {
    /// Checks length, model, return mode and the frame of every block.
    ///
    /// # Errors
    ///
    /// The first thing that is not as in a data packet of a [`Model`].
    pub fn new(data: &'a [u8]) -> Result<Self, PacketError> {
        let data: &[u8; PACKET_LEN] = data
            .try_into()
            .map_err(|_| PacketError::Length { len: data.len() })?;
        let (blocks, tail) = data.as_chunks::<BLOCK_LEN>();
        let blocks: &[_; BLOCKS] = blocks.try_into().expect("1206 B hold 12 blocks of 100 B");
        let &[t0, t1, t2, t3, mode, product] = tail else {
            unreachable!("12 blocks leave 6 of 1206 B")
        };
        let model = Model::from_product(product).ok_or_else(|| match foreign_name(product) {
            Some(name) => PacketError::ForeignModel { name, product },
            None => PacketError::UnknownModel { product },
        })?;
        let return_mode = match mode {
            0x37 => ReturnMode::Strongest,
            0x38 => ReturnMode::Last,
            0x39 => ReturnMode::Dual,
            _ => return Err(PacketError::ReturnMode { mode }),
        };
        let timestamp_us = u32::from_le_bytes([t0, t1, t2, t3]);
        let packet = Self {
            blocks,
            timestamp_us,
            return_mode,
            model,
        };
        for (block, &[first, second, ..]) in blocks.iter().enumerate() {
            let found = [first, second];
            if found != BLOCK_FLAG {
                return Err(PacketError::Flag { block, found });
            }
            let azimuth = packet.azimuth(block);
            if azimuth >= FULL_TURN {
                return Err(PacketError::Azimuth { block, azimuth });
            }
        }
        Ok(packet)
    }

    /// Passes on the packet if it is from the same model as those before, which `before` keeps.
    pub(crate) fn follows(self, before: &mut Option<Model>) -> Result<Self, PacketError> {
        match *before.get_or_insert(self.model) {
            before if before == self.model => Ok(self),
            before => Err(PacketError::MixedModels {
                model: self.model,
                before,
            }),
        }
    }

    /// What sent it.
    pub fn model(&self) -> Model {
        self.model
    }

    /// Microseconds past the hour on the sensor's clock, when the first block was fired.
    pub fn timestamp_us(&self) -> u32 {
        self.timestamp_us
    }

    /// What the packet reports of each pulse. It may change from packet to packet.
    pub fn return_mode(&self) -> ReturnMode {
        self.return_mode
    }

    /// Azimuth of a block in hundredths of a degree.
    ///
    /// # Panics
    ///
    /// If `block` is not less than [`BLOCKS`].
    pub fn azimuth(&self, block: usize) -> u16 {
        u16::from_le_bytes([self.blocks[block][2], self.blocks[block][3]])
    }

    /// Returns of a block, slot by slot: two bytes of distance and one of reflectivity each.
    pub(crate) fn returns(&self, block: usize) -> &'a [[u8; 3]; SLOTS] {
        let (returns, _) = self.blocks[block][4..].as_chunks::<3>();
        returns.try_into().expect("96 B hold 32 returns of 3 B")
    }
}

/// What one laser measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Return {
    /// In units of [`Geometry::distance_unit`](crate::Geometry::distance_unit); 0 is no return.
    pub distance: u16,
    /// 0 to 100 diffuse, 101 to 255 retroreflective.
    pub reflectivity: u8,
}

/// One block of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    /// In hundredths of a degree, less than [`FULL_TURN`].
    pub azimuth: u16,
    /// Slot by slot.
    pub returns: [Return; SLOTS],
}

/// A data packet taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// What sends it.
    pub model: Model,
    /// In the order they were fired.
    pub blocks: [Block; BLOCKS],
    /// Microseconds past the hour on the sensor's clock, when the first block was fired.
    pub timestamp_us: u32,
    /// What is reported of each pulse.
    pub return_mode: ReturnMode,
}

impl Packet {
    /// Takes a packet apart.
    ///
    /// # Errors
    ///
    /// As [`PacketView::new`].
    pub fn decode(data: &[u8]) -> Result<Self, PacketError> {
        let view = PacketView::new(data)?;
        let block = |number: usize| Block {
            azimuth: view.azimuth(number),
            returns: view
                .returns(number)
                .map(|[low, high, reflectivity]| Return {
                    distance: u16::from_le_bytes([low, high]),
                    reflectivity,
                }),
        };
        Ok(Self {
            model: view.model,
            blocks: std::array::from_fn(block),
            timestamp_us: view.timestamp_us,
            return_mode: view.return_mode,
        })
    }

    /// The packet as the sensor sends it.
    pub fn encode(&self) -> [u8; PACKET_LEN] {
        let mut data = [0; PACKET_LEN];
        let (blocks, tail) = data.as_chunks_mut::<BLOCK_LEN>();
        for (bytes, block) in blocks.iter_mut().zip(&self.blocks) {
            bytes[..2].copy_from_slice(&BLOCK_FLAG);
            bytes[2..4].copy_from_slice(&block.azimuth.to_le_bytes());
            let (returns, _) = bytes[4..].as_chunks_mut::<3>();
            for (bytes, value) in returns.iter_mut().zip(&block.returns) {
                let [low, high] = value.distance.to_le_bytes();
                *bytes = [low, high, value.reflectivity];
            }
        }
        tail[..4].copy_from_slice(&self.timestamp_us.to_le_bytes());
        tail[4] = self.return_mode as u8;
        tail[5] = self.model.product();
        data
    }
}
