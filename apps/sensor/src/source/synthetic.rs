use std::time::Duration;

use lidar_messages::{Packets, Point, Pose, Quaternion, Time, VelodyneScan};
use lidar_scene::{Random, Scene, Street, TruthBox};

use super::Statistics;
use crate::{
    model::Model,
    packet::{BLOCKS, Block, FULL_TURN, PACKET_LEN, Packet, PacketView, Return, ReturnMode, SLOTS},
    turn::{Turn, TurnAssembler},
};

/// Stamp of the first simulated packet: a whole hour, some day in 2001.
const START: Time = Time {
    secs: 1_000_000_800,
    nsecs: 0,
};

/// Nanoseconds after which the sensor's clock starts over.
const HOUR_NANOS: u64 = 3_600_000_000_000;

/// Offset of the microseconds in a data packet.
const TIMESTAMP_AT: usize = 1200;

/// Closest surface the sensor measures, in metres.
const MIN_RANGE: f32 = 0.5;

/// Distance in the map from the street of one seed to that of the next, in metres: as far as a sensor
/// sees.
const STREET_PITCH: f64 = 200.0;

/// Streets that lie side by side before the first place is used again.
const STREETS: u64 = 1_000;

/// Nanoseconds of a turn at 600 rpm.
const USUAL_TURN_NANOS: u64 = 100_000_000;

/// A simulated sensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatorConfig {
    /// What is simulated, in its strongest-return mode.
    pub model: Model,
    /// Seed of the street and of the noise.
    pub seed: u64,
    /// Speed of the rotor.
    ///
    /// The default is what 600 becomes if every turn is to be of exactly as many packets: 598.8 for
    /// 151 packets of a VLP-32C. At 600 itself its turn takes 150.7 packets, and one scan in three
    /// has 150.
    pub rpm: f64,
    /// Standard deviation of distances, in metres. The data sheet says 3 cm of accuracy, most of
    /// it constant for a laser; this is the part that changes from pulse to pulse.
    pub range_noise: f32,
}

impl Default for SimulatorConfig {
    fn default() -> Self {
        Self::new(Model::default(), 0)
    }
}

impl SimulatorConfig {
    /// The defaults for a model in the street of `seed`.
    pub fn new(model: Model, seed: u64) -> Self {
        let packet = model.geometry().packet_nanos();
        let packets = (USUAL_TURN_NANOS + packet / 2) / packet;
        Self {
            model,
            seed,
            rpm: 60e9 / (packets * packet) as f64,
            range_noise: 0.01,
        }
    }
}

/// A turn through a street and the objects in it.
#[derive(Debug, Clone)]
pub struct SimulatedTurn {
    /// The packets.
    pub turn: Turn,
    /// Every labelled object, seen or not, in the sensor frame.
    pub truth: Vec<TruthBox>,
}

/// A sensor in a street, without end: every turn is another moment.
///
/// All lasers fire at the azimuths and times of the real sensor, in packets that are encoded as
/// it does. The traffic stands still for the length of a turn, so the boxes fit the points, and
/// moves on between turns.
#[derive(Debug)]
pub struct Simulator {
    scene: Scene,
    turns: TurnAssembler,
    random: Random,
    range_noise: f32,
    turn_seconds: f32,
    model: Model,
    seed: u64,
    /// Hundredths of a degree in one block.
    step: f64,
    /// Azimuth of the next block, not reduced to a turn.
    azimuth: f64,
    /// Packets fired so far.
    packets: u64,
    beams: [Beam; SLOTS],
}

/// Where a laser points.
#[derive(Debug, Clone, Copy)]
struct Beam {
    /// Upward part of its direction.
    rise: f32,
    /// Level part of its direction.
    level: f32,
    /// Height at which it leaves the axis of the sensor, in metres.
    height: f32,
}

impl Simulator {
    /// Builds the street of `config.seed`.
    pub fn new(config: SimulatorConfig) -> Self {
        Self::within(Street::default().build(config.seed), config)
    }

    /// In a scene of its own; the seed is that of the noise alone.
    pub fn within(scene: Scene, config: SimulatorConfig) -> Self {
        let turn_seconds = 60.0 / config.rpm;
        let geometry = config.model.geometry();
        let step = geometry.block_nanos as f64 * 1e-9 / turn_seconds * f64::from(FULL_TURN);
        Self {
            scene,
            turns: TurnAssembler::new(0),
            random: Random::new(config.seed),
            range_noise: config.range_noise,
            turn_seconds: turn_seconds as f32,
            model: config.model,
            seed: config.seed,
            step,
            // So that the wrap falls into the middle of a packet if turns are whole packets.
            azimuth: step * BLOCKS as f64 / 2.0,
            packets: 0,
            beams: geometry.elevation.map(|degrees| {
                let (sin, cos) = degrees.to_radians().sin_cos();
                let height = -geometry.beam_origin * sin / cos;
                Beam {
                    rise: sin as f32,
                    level: cos as f32,
                    height: height as f32,
                }
            }),
        }
    }

    /// Where the sensor is in a map in which streets of different seeds are different places: side by
    /// side along y, 200 m apart, each with its road along x at z = 0.
    pub fn pose(&self) -> Pose {
        Pose {
            position: Point {
                x: 0.0,
                y: STREET_PITCH * (self.seed % STREETS) as f64,
                z: f64::from(self.scene.mount_height()),
            },
            orientation: Quaternion::default(),
        }
    }

    /// Casts the next turn.
    pub fn next_turn(&mut self) -> SimulatedTurn {
        loop {
            let nanos = START.as_nanos() + self.packets * self.model.geometry().packet_nanos();
            let data = self.fire_packet(nanos).encode();
            self.packets += 1;
            let view = PacketView::new(&data).expect("an encoded packet is a good packet");
            if let Some(turn) = self.turns.push(Time::from_nanos(nanos), &data, &view) {
                let truth = self.scene.truth();
                self.scene.advance(self.turn_seconds);
                return SimulatedTurn { turn, truth };
            }
        }
    }

    fn fire_packet(&mut self, nanos: u64) -> Packet {
        Packet {
            model: self.model,
            blocks: std::array::from_fn(|_| {
                let azimuth = self.azimuth.rem_euclid(f64::from(FULL_TURN));
                self.azimuth += self.step;
                Block {
                    azimuth: azimuth.round() as u16 % FULL_TURN,
                    returns: self.fire(azimuth),
                }
            }),
            timestamp_us: microseconds_past_hour(nanos),
            return_mode: ReturnMode::Strongest,
        }
    }

    /// Fires a block, its first laser at `azimuth`.
    fn fire(&mut self, azimuth: f64) -> [Return; SLOTS] {
        let geometry = self.model.geometry();
        let turning = self.step / geometry.block_nanos as f64;
        std::array::from_fn(|slot| {
            let turned = turning * geometry.fired_nanos[slot] as f64;
            let hundredths = azimuth + turned + f64::from(geometry.azimuth_offset[slot]);
            let (sin, cos) = ((hundredths / 100.0).to_radians() as f32).sin_cos();
            let Beam {
                rise,
                level,
                height,
            } = self.beams[slot];
            let hit = self
                .scene
                .cast([0.0, 0.0, height], [level * cos, -level * sin, rise]);
            let noise = self.range_noise * normal(&mut self.random);
            match hit {
                Some(hit) if (MIN_RANGE..geometry.range).contains(&hit.range) => Return {
                    // The range is well within 16 bits.
                    distance: ((hit.range + noise) / geometry.distance_unit).round() as u16,
                    reflectivity: hit.reflectivity,
                },
                _ => Return::default(),
            }
        })
    }
}

/// Roughly normal with mean 0 and deviation 1, out of one number, as every pulse needs one.
fn normal(random: &mut Random) -> f32 {
    let bits = random.bits();
    let sum: u32 = (0..4)
        .map(|part| u32::from((bits >> (16 * part)) as u16))
        .sum();
    // Four uniform numbers from 0 to 1 have mean 2 and variance 1/3.
    (sum as f32 / 65_536.0 - 2.0) * 3.0_f32.sqrt()
}

fn microseconds_past_hour(nanos: u64) -> u32 {
    // An hour has 3.6e9 microseconds, which fit 32 bits.
    (nanos % HOUR_NANOS / 1_000) as u32
}

/// A loop of simulated turns, cast in advance.
///
/// Casting a turn costs tens of milliseconds, and a load generator must not compete with what it
/// loads; handing out one that was cast costs the copy of its packets, some 20 microseconds. At
/// the end of the loop the traffic jumps back to where it was; stamps and the sensor's clock run
/// on.
#[derive(Debug)]
pub struct Synthetic {
    turns: Vec<SimulatedTurn>,
    pose: Pose,
    /// Turns returned so far.
    returned: u64,
    packets: u64,
    loop_nanos: u64,
}

impl Synthetic {
    /// Casts `turns` turns, at least one. 20 turns are two seconds.
    pub fn new(config: SimulatorConfig, turns: usize) -> Self {
        let mut simulator = Simulator::new(config);
        let pose = simulator.pose();
        let turns: Vec<_> = (0..turns.max(1)).map(|_| simulator.next_turn()).collect();
        let packets: usize = turns.iter().map(|cast| cast.turn.scan.packets.len()).sum();
        Self {
            turns,
            pose,
            returned: 0,
            packets: 0,
            loop_nanos: packets as u64 * config.model.geometry().packet_nanos(),
        }
    }

    /// The next turn.
    pub fn next_scan(&mut self) -> Turn {
        let len = self.turns.len() as u64;
        // Less than the length of a vector.
        let place = (self.returned % len) as usize;
        let pass = self.returned / len;
        let Turn {
            scan,
            partial,
            lost,
        } = &self.turns[place].turn;
        let scan = later(
            scan,
            self.returned,
            Duration::from_nanos(pass * self.loop_nanos),
        );
        self.returned += 1;
        self.packets += scan.packets.len() as u64;
        Turn {
            scan,
            partial: *partial,
            lost: *lost,
        }
    }

    /// The labelled objects in the turn that was returned last, in the sensor frame; those of the
    /// first turn before any was.
    pub fn truth(&self) -> &[TruthBox] {
        let place = self.returned.saturating_sub(1) % self.turns.len() as u64;
        &self.turns[place as usize].truth
    }

    /// Where the sensor is; see [`Simulator::pose`].
    pub fn pose(&self) -> Pose {
        self.pose
    }

    /// What was returned so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            turns: self.returned,
            packets: self.packets,
            ..Statistics::default()
        }
    }
}

/// The scan as if it had been taken later, with another number.
fn later(scan: &VelodyneScan, seq: u64, by: Duration) -> VelodyneScan {
    let by = by.as_nanos() as u64;
    let shifted = |stamp: Time| stamp.as_nanos() + by;
    let mut packets = Packets::builder(scan.packets.len());
    for packet in scan.packets.iter() {
        let nanos = shifted(packet.stamp);
        let mut data: [u8; PACKET_LEN] = *packet.data;
        data[TIMESTAMP_AT..][..4].copy_from_slice(&microseconds_past_hour(nanos).to_le_bytes());
        packets.push(Time::from_nanos(nanos), &data);
    }
    let mut header = scan.header.clone();
    // Sequence numbers of ROS wrap.
    header.seq = seq as u32;
    header.stamp = Time::from_nanos(shifted(header.stamp));
    VelodyneScan {
        header,
        packets: packets.build(),
    }
}
