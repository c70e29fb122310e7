//! Where frames and their lists go: to viewers and recorders, and to who acts on the lists.

use exchange::DataType;
use latency_timeline::{Clock, Point};
use tokio::sync::mpsc;
use transport_api::{Message, MessageId, Metadata, Publisher, PublisherCounters, Sequence};

use crate::frame::{Frame, Objects};
use crate::selection::{Found, Offer};

/// Everybody who is told of frames. Nobody can hold it up.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) data_type: DataType,
    pub(crate) viewers: Vec<mpsc::Sender<Frame>>,
    pub(crate) selected: Option<Selected>,
    /// Frames that each of them had no room for.
    pub(crate) unseen: Vec<u64>,
}

/// Publishes the lists that the vehicle acts on.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) publisher: Box<dyn Publisher>,
    pub(crate) ids: Sequence,
    /// The source of the scans' numbers.
    pub(crate) scans: u64,
    pub(crate) clock: Clock,
}

impl Outlet {
    /// Whether somebody wants to see what was sent.
    pub(crate) fn takes_payload(&self) -> bool {
        !self.viewers.is_empty()
    }

    /// A frame has its list, or was given up.
    pub(crate) fn tell(&mut self, offer: Offer, found: Option<Found>) {
        if let (Some(selected), Some(found)) = (&mut self.selected, &found) {
            selected.publish(&offer, found);
        }
        if self.viewers.is_empty() {
            return;
        }
        let frame = Frame {
            seq: offer.seq,
            start_ns: offer.timeline.get(Point::Start).unwrap_or(0),
            data_type: self.data_type,
            payload: offer.payload,
            objects: found.map(|found| Objects {
                source: found.source,
                list: found.list,
                age: found.age,
            }),
            timeline: offer.timeline,
        };
        for (viewer, unseen) in self.viewers.iter().zip(&mut self.unseen) {
            if viewer.try_send(frame.clone()).is_err() {
                *unseen += 1;
            }
        }
    }

    /// What became of the published lists; `None` if none were asked for.
    pub(crate) fn counters(&self) -> Option<PublisherCounters> {
        let selected = self.selected.as_ref();
        selected.map(|selected| selected.publisher.counters())
    }
}

impl Selected {
    fn publish(&mut self, offer: &Offer, found: &Found) {
        let scan = MessageId {
            source: self.scans,
            seq: offer.seq,
        };
        let meta = Metadata {
            id: Some(self.ids.next_id()),
            correlation: Some(scan),
            stamps: exchange::pack_selected(&offer.timeline, self.clock.id(), found.edge_clock),
            ..Metadata::default()
        };
        let payload = found.list.clone();
        // One that is refused is counted by the publisher; the next list is a newer one.
        drop(self.publisher.try_publish(Message { payload, meta }));
    }
}
