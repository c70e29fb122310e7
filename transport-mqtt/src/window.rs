//! Which message has which packet id, until the broker acknowledges it.
//!
//! The client library numbers packets 1, 2, … up to the window and over again, and stops for good
//! if it has to reuse a number that is not acknowledged yet. The window foresees the next number,
//! so that such a message waits here instead.

use std::collections::VecDeque;

/// Unacknowledged messages in the order they were sent.
#[derive(Debug)]
pub(crate) struct Window<T> {
    entries: VecDeque<(u16, T)>,
    size: u16,
    last: u16,
    /// Numbers that the client library takes for unacknowledged although they were refused.
    leaked: u16,
}

impl<T> Window<T> {
    /// An empty one for `window` messages at once.
    pub(crate) fn new(window: u16) -> Self {
        Self {
            entries: VecDeque::new(),
            size: window.max(1),
            last: 0,
            leaked: 0,
        }
    }

    /// Whether one more message can be sent.
    pub(crate) fn has_room(&self) -> bool {
        let next = if self.last == self.size {
            1
        } else {
            self.last + 1
        };
        self.entries.len() + usize::from(self.leaked) < usize::from(self.size)
            && self.entries.iter().all(|(id, _)| *id != next)
    }

    /// Takes note of a sent message.
    pub(crate) fn insert(&mut self, id: u16, entry: T) {
        self.last = id;
        self.entries.push_back((id, entry));
    }

    /// Takes a message out; `None` if the id belongs to none.
    pub(crate) fn settle(&mut self, id: u16) -> Option<T> {
        let at = self.entries.iter().position(|(found, _)| *found == id)?;
        self.entries.remove(at).map(|(_, entry)| entry)
    }

    /// Takes note that the client library did not free a number.
    pub(crate) fn leak(&mut self) {
        self.leaked += 1;
    }

    /// Whether the client library must start over to send again.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.leaked >= self.size && self.entries.is_empty()
    }

    /// Takes all messages out, in order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.entries.drain(..).map(|(_, entry)| entry)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers packets as the client library does.
    fn number(last: &mut u16, window: u16) -> u16 {
        *last = if *last == window { 1 } else { *last + 1 };
        *last
    }

    #[test]
    fn no_number_is_used_twice_whatever_the_order_of_acknowledgements() {
        let mut state = 7u64;
        for window in [1, 2, 3, 10] {
            let mut ids = Window::new(window);
            let (mut last, mut sent, mut settled) = (0, 0u64, 0u64);
            let mut open = Vec::new();
            for _ in 0..5000 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                if state >> 63 == 0 && ids.has_room() {
                    let id = number(&mut last, window);
                    assert!(!open.contains(&id), "number {id} is in use");
                    open.push(id);
                    ids.insert(id, sent);
                    sent += 1;
                } else if !open.is_empty() {
                    let id = open.swap_remove((state >> 33) as usize % open.len());
                    assert!(ids.settle(id).is_some());
                    assert!(ids.settle(id).is_none());
                    settled += 1;
                }
                assert_eq!(ids.len() as u64, sent - settled);
            }
            assert!(sent > 1000);
            let rest: Vec<_> = ids.drain().collect();
            assert!(rest.is_sorted());
        }
    }

    #[test]
    fn refused_messages_narrow_the_window_until_the_library_starts_over() {
        let mut ids = Window::new(2);
        for id in [1, 2] {
            assert!(ids.has_room());
            ids.insert(id, ());
            ids.settle(id);
            ids.leak();
        }
        assert!(!ids.has_room());
        assert!(ids.is_exhausted());
    }
}
