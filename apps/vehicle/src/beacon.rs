//! Says where the vehicle is.

use std::sync::atomic::{AtomicU64, Ordering};

use exchange::MAP;
use lidar_messages::{Header, Pose, PoseStamped, Time};
use transport_api::{Message, MessageId, Publisher, PublisherCounters, Refused, Sequence, Why};

/// Publishes the pose of the lidar with every scan, under the stamp of the scan. What the transport does
/// not take is in its counters, and the next scan brings another.
#[derive(Debug)]
pub(crate) struct Beacon {
    publisher: Box<dyn Publisher>,
    source: u64,
    /// Poses told so far.
    count: AtomicU64,
    pose: Pose,
}

impl Beacon {
    pub(crate) fn new(publisher: Box<dyn Publisher>, pose: Pose) -> Self {
        Self {
            publisher,
            source: Sequence::random().source(),
            count: AtomicU64::new(0),
            pose,
        }
    }

    /// Says where the vehicle is in a scan taken at `stamp`. Never blocks.
    pub(crate) fn tell(&self, stamp: Time) {
        let seq = self.count.fetch_add(1, Ordering::Relaxed);
        let pose = PoseStamped {
            header: Header {
                // Sequence numbers of ROS wrap.
                seq: seq as u32,
                stamp,
                frame_id: MAP.into(),
            },
            pose: self.pose,
        };
        let id = MessageId {
            source: self.source,
            seq,
        };
        let told = self
            .publisher
            .try_publish(Message::new(pose.encode()).with_id(id));
        if let Err(Refused {
            why: Why::Fatal(error),
            ..
        }) = told
            && seq == 0
        {
            tracing::warn!(%error, "pose not published");
        }
    }

    pub(crate) fn counters(&self) -> PublisherCounters {
        self.publisher.counters()
    }
}
