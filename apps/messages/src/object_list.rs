use bytes::Bytes;

use crate::{
    DecodeError, Header, Vector3,
    wire::{Reader, Writer},
};

/// `perception_msgs/ObjectList`: objects with an identity and a state, as of its first definition for
/// ROS 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectList {
    /// Number, time and frame of the scan the objects were found in.
    pub header: Header,
    /// The objects; none is a valid list.
    pub objects: Vec<Object>,
}

/// `perception_msgs/Object`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object {
    /// Its identity, the same as long as it is followed.
    pub id: u64,
    /// Probability that it exists, 0 to 1.
    pub existence_probability: f64,
    /// How it is.
    pub state: ObjectState,
    /// How it was.
    pub state_history: Vec<ObjectState>,
    /// How it may become.
    pub state_predictions: Vec<ObjectStatePrediction>,
}

/// `perception_msgs/ObjectState`: numbers whose meaning a model says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectState {
    /// Time and frame.
    pub header: Header,
    /// Which model; [`Iscactr::MODEL_ID`] for [`Iscactr`].
    pub model_id: u8,
    /// Sensors that measured it.
    pub sensor_id: Vec<u64>,
    /// Numbers of the state.
    pub continuous_state: Vec<f64>,
    /// Whole numbers of the state.
    pub discrete_state: Vec<i64>,
    /// Row-major covariance of the continuous state.
    pub continuous_state_covariance: Vec<f64>,
    /// What it may be.
    pub classifications: Vec<ObjectClassification>,
    /// Which of its points the position is that of.
    pub reference_point: ObjectReferencePoint,
}

/// `perception_msgs/ObjectStatePrediction`: a course that an object may take.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectStatePrediction {
    /// Probability of it.
    pub probability: f64,
    /// The states, in the order of time.
    pub states: Vec<ObjectState>,
}

/// `perception_msgs/ObjectClassification`: one class an object may have.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ObjectClassification {
    /// Number of the class, such as [`CAR`](Self::CAR).
    pub kind: u8,
    /// Probability, 0 to 1.
    pub probability: f64,
}

/// `perception_msgs/ObjectReferencePoint`; by default the middle of the object.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ObjectReferencePoint {
    /// Number of the point; 0 is the geometric centre.
    pub value: u8,
    /// From there to the geometric centre.
    pub translation_to_geometric_center: Vector3,
}

/// The model of a box that moves: the 12 numbers of `perception_msgs/ISCACTR`, which a box from one
/// scan fills in part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Iscactr {
    /// Where its middle is, `[x, y, z]` in metres.
    pub position: [f64; 3],
    /// Heading in radians, -pi to pi.
    pub yaw: f64,
    /// Length (along the heading), width and height, in metres.
    pub size: [f64; 3],
}

impl ObjectClassification {
    /// People on foot.
    pub const PEDESTRIAN: u8 = 1;
    /// Bicycles.
    pub const BICYCLE: u8 = 2;
    /// Motorcycles.
    pub const MOTORBIKE: u8 = 3;
    /// Cars.
    pub const CAR: u8 = 4;
    /// Lorries.
    pub const TRUCK: u8 = 5;
    /// Vans.
    pub const VAN: u8 = 6;
    /// Buses.
    pub const BUS: u8 = 7;
    /// Cars or vans.
    pub const CAR_UNION: u8 = 50;
    /// Lorries, buses or trains.
    pub const TRUCK_UNION: u8 = 51;
    /// Bicycles or motorcycles.
    pub const BIKE_UNION: u8 = 52;

    const LEN: usize = 1 + 8;
}

impl Iscactr {
    /// Number of this model in [`ObjectState::model_id`].
    pub const MODEL_ID: u8 = 16;

    /// Numbers of the state: position, two velocities, two accelerations, yaw, yaw rate, width, length,
    /// height.
    const SIZE: usize = 12;

    /// Where in the state the yaw and the width are.
    const YAW: usize = 7;
    const WIDTH: usize = 9;

    /// A variance of what is not set.
    const INVALID: f64 = -1.0;
    /// A variance of what is set and whose variance is not known.
    const UNKNOWN: f64 = f64::MAX;

    /// The numbers of the state. What is not known of it is 0.
    pub fn continuous_state(&self) -> Vec<f64> {
        let [x, y, z] = self.position;
        let [length, width, height] = self.size;
        vec![
            x, y, z, 0.0, 0.0, 0.0, 0.0, self.yaw, 0.0, width, length, height,
        ]
    }

    /// Their covariance: says of velocities, accelerations and the yaw rate that they are not set, and
    /// of the others that they are, with an unknown variance.
    pub fn covariance() -> Vec<f64> {
        let mut covariance = vec![0.0; Self::SIZE * Self::SIZE];
        for n in 0..Self::SIZE {
            let set = n < 3 || n == Self::YAW || n >= Self::WIDTH;
            covariance[n * Self::SIZE + n] = if set { Self::UNKNOWN } else { Self::INVALID };
        }
        covariance
    }

    /// The box in a state of this model; `None` for other models and states of another length.
    pub fn of(state: &ObjectState) -> Option<Self> {
        let numbers = <[f64; Self::SIZE]>::try_from(&*state.continuous_state).ok()?;
        let [x, y, z, _, _, _, _, yaw, _, width, length, height] = numbers;
        (state.model_id == Self::MODEL_ID).then_some(Self {
            position: [x, y, z],
            yaw,
            size: [length, width, height],
        })
    }
}

impl ObjectList {
    /// Decodes an object list; strings in it share the memory of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes are cut, followed by others, announce more objects than they hold, or a part of
    /// them is not valid (see [`Fault`](crate::Fault)).
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(Self::TYPE.name, bytes);
        let header = Header::read(&mut reader)?;
        let objects = reader.sequence("objects", Object::MIN_LEN, Object::read)?;
        reader.finish("objects")?;
        Ok(Self { header, objects })
    }

    /// Bytes [`encode`](Self::encode) returns.
    pub fn encoded_len(&self) -> usize {
        let objects: usize = self.objects.iter().map(Object::encoded_len).sum();
        self.header.encoded_len() + 4 + objects
    }

    /// Encodes the object list.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.encoded_len());
        self.header.write(&mut writer);
        writer.sequence(&self.objects, Object::write);
        writer.finish()
    }
}

impl Object {
    const MIN_LEN: usize = 8 + 8 + ObjectState::MIN_LEN + 4 + 4;

    fn encoded_len(&self) -> usize {
        let states = std::iter::once(&self.state).chain(&self.state_history);
        let states: usize = states.map(ObjectState::encoded_len).sum();
        let predictions = self.state_predictions.iter();
        let predictions: usize = predictions.map(ObjectStatePrediction::encoded_len).sum();
        8 + 8 + states + 4 + 4 + predictions
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let id = reader.u64("objects.id")?;
        let [existence_probability] = reader.f64s("objects.existence_probability")?;
        Ok(Self {
            id,
            existence_probability,
            state: ObjectState::read(reader)?,
            state_history: reader.sequence(
                "objects.state_history",
                ObjectState::MIN_LEN,
                ObjectState::read,
            )?,
            state_predictions: reader.sequence(
                "objects.state_predictions",
                ObjectStatePrediction::MIN_LEN,
                ObjectStatePrediction::read,
            )?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.id);
        writer.f64s(&[self.existence_probability]);
        self.state.write(writer);
        writer.sequence(&self.state_history, ObjectState::write);
        writer.sequence(&self.state_predictions, ObjectStatePrediction::write);
    }
}

impl ObjectStatePrediction {
    const MIN_LEN: usize = 8 + 4;

    fn encoded_len(&self) -> usize {
        let states = self.states.iter().map(ObjectState::encoded_len);
        8 + 4 + states.sum::<usize>()
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let [probability] = reader.f64s("objects.state_predictions.probability")?;
        let field = "objects.state_predictions.states";
        Ok(Self {
            probability,
            states: reader.sequence(field, ObjectState::MIN_LEN, ObjectState::read)?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.f64s(&[self.probability]);
        writer.sequence(&self.states, ObjectState::write);
    }
}

impl ObjectState {
    const MIN_LEN: usize = Header::MIN_LEN + 1 + 5 * 4 + ObjectReferencePoint::LEN;

    fn encoded_len(&self) -> usize {
        let words = self.sensor_id.len()
            + self.continuous_state.len()
            + self.discrete_state.len()
            + self.continuous_state_covariance.len();
        self.header.encoded_len()
            + 1
            + 5 * 4
            + 8 * words
            + self.classifications.len() * ObjectClassification::LEN
            + ObjectReferencePoint::LEN
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            header: Header::read(reader)?,
            model_id: reader.u8("state.model_id")?,
            sensor_id: reader
                .sequence("state.sensor_id", 8, |reader| reader.u64("state.sensor_id"))?,
            continuous_state: numbers(reader, "state.continuous_state")?,
            discrete_state: reader.sequence("state.discrete_state", 8, |reader| {
                reader.i64("state.discrete_state")
            })?,
            continuous_state_covariance: numbers(reader, "state.continuous_state_covariance")?,
            classifications: reader.sequence(
                "state.classifications",
                ObjectClassification::LEN,
                ObjectClassification::read,
            )?,
            reference_point: ObjectReferencePoint::read(reader)?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        self.header.write(writer);
        writer.u8(self.model_id);
        writer.sequence(&self.sensor_id, |id, writer| writer.u64(*id));
        writer.count(self.continuous_state.len());
        writer.f64s(&self.continuous_state);
        writer.sequence(&self.discrete_state, |value, writer| writer.i64(*value));
        writer.count(self.continuous_state_covariance.len());
        writer.f64s(&self.continuous_state_covariance);
        writer.sequence(&self.classifications, ObjectClassification::write);
        self.reference_point.write(writer);
    }
}

fn numbers(reader: &mut Reader, field: &'static str) -> Result<Vec<f64>, DecodeError> {
    reader.sequence(field, 8, |reader| Ok(reader.f64s::<1>(field)?[0]))
}

impl ObjectClassification {
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let kind = reader.u8("state.classifications.type")?;
        let [probability] = reader.f64s("state.classifications.probability")?;
        Ok(Self { kind, probability })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u8(self.kind);
        writer.f64s(&[self.probability]);
    }
}

impl ObjectReferencePoint {
    const LEN: usize = 1 + Vector3::LEN;

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let value = reader.u8("state.reference_point.value")?;
        let field = "state.reference_point.translation_to_geometric_center";
        Ok(Self {
            value,
            translation_to_geometric_center: Vector3::read(reader, field)?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u8(self.value);
        self.translation_to_geometric_center.write(writer);
    }
}
