//! Says where the vehicle is.

use exchange::MAP;
use lidar_messages::{Header, Pose, PoseStamped, Time};
use transport_api::{Message, MessageId, Publisher, PublisherCounters, Refused, Sequence, Why};

/// Publishes the pose of the lidar with every scan, under the stamp of the scan. What the transport does
/// not take is in its counters, and the next scan brings another.
#[derive(Debug)]
pub(crate) struct Beacon {
    publisher: Box<dyn Publisher>,
    source: u64,
    pose: Pose,
}

impl Beacon {
    pub(crate) fn new(publisher: Box<dyn Publisher>, pose: Pose) -> Self {
        Self {
            publisher,
            source: Sequence::random().source(),
            pose,
        }
    }

    /// Says where the vehicle is in scan number `n`, taken at `stamp`. Never blocks.
    pub(crate) fn tell(&self, n: usize, stamp: Time) {
        let pose = PoseStamped {
            header: Header {
                // Sequence numbers of ROS wrap.
                seq: n as u32,
                stamp,
                frame_id: MAP.into(),
            },
            pose: self.pose,
        };
        let id = MessageId {
            source: self.source,
            seq: n as u64,
        };
        let told = self
            .publisher
            .try_publish(Message::new(pose.encode()).with_id(id));
        if let Err(Refused {
            why: Why::Fatal(error),
            ..
        }) = told
            && n == 0
        {
            tracing::warn!(%error, "pose not published");
        }
    }

    pub(crate) fn counters(&self) -> PublisherCounters {
        self.publisher.counters()
    }
}
