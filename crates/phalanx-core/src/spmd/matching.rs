//! Matches messages with receives (MPI 5.0, 3.5): messages of one source in the order of their arrival, receives in the
//! order in which they were posted.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::envelope::{ContextHasher, Envelope, Pattern};
use super::unexpected::Unexpected;

/// The queues of one process: receives that wait for messages, and messages that wait for receives.
#[derive(Debug)]
pub struct Matching<R, M> {
    contexts: HashMap<u64, Queues<R, M>, BuildHasherDefault<ContextHasher>>,
}

/// Both queues are in order of arrival. No posted receive matches an unexpected message.
#[derive(Debug)]
struct Queues<R, M> {
    posted: VecDeque<(Pattern, R)>,
    unexpected: Unexpected<M>,
}

impl<R, M> Default for Queues<R, M> {
    fn default() -> Queues<R, M> {
        Queues { posted: VecDeque::new(), unexpected: Unexpected::default() }
    }
}

impl<R, M> Default for Matching<R, M> {
    fn default() -> Matching<R, M> {
        Matching { contexts: HashMap::default() }
    }
}

impl<R, M> Matching<R, M> {
    /// A message has arrived: removes and returns the first posted receive that matches it.
    pub fn arrive(&mut self, envelope: &Envelope) -> Option<R> {
        let posted = &mut self.contexts.get_mut(&envelope.context)?.posted;
        let index = posted.iter().position(|(pattern, _)| pattern.takes(envelope))?;
        posted.remove(index).map(|(_, receive)| receive)
    }

    /// Keeps an unexpected message, which no receive waits for, until a receive takes it.
    pub fn keep(&mut self, envelope: Envelope, message: M) {
        self.contexts.entry(envelope.context).or_default().unexpected.push(envelope, message);
    }

    /// Removes and returns the first unexpected message that matches.
    pub fn take(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        self.contexts.get_mut(&pattern.context)?.unexpected.take(pattern)
    }

    /// The first unexpected message that matches, without removing it.
    pub fn look(&self, pattern: &Pattern) -> Option<(Envelope, &M)> {
        self.contexts.get(&pattern.context)?.unexpected.look(pattern)
    }

    /// Posts a receive for which no unexpected message matches.
    pub fn post(&mut self, pattern: Pattern, receive: R) {
        self.contexts.entry(pattern.context).or_default().posted.push_back((pattern, receive));
    }

    /// Cancels a posted receive. `None`: it has got its message already.
    pub fn cancel(&mut self, context: u64, is_it: impl Fn(&R) -> bool) -> Option<R> {
        let posted = &mut self.contexts.get_mut(&context)?.posted;
        let index = posted.iter().position(|(_, receive)| is_it(receive))?;
        posted.remove(index).map(|(_, receive)| receive)
    }

    /// Withdraws a message that its sender no longer wants to send. `None`: a receive has got it already.
    pub fn withdraw(&mut self, context: u64, is_it: impl Fn(&M) -> bool) -> Option<M> {
        let queues = self.contexts.get_mut(&context)?;
        let withdrawn = queues.unexpected.withdraw(is_it)?;
        if queues.unexpected.is_empty() && queues.posted.is_empty() {
            self.contexts.remove(&context); // a program that repeats this uses a new context each time
        }
        Some(withdrawn)
    }

    /// Removes and returns the receives of a context whose only possible sources are lost.
    pub fn fail(&mut self, context: u64, is_lost: impl Fn(Option<i32>) -> bool) -> Vec<R> {
        let Some(queues) = self.contexts.get_mut(&context) else { return Vec::new() };
        let (failed, posted) =
            std::mem::take(&mut queues.posted).into_iter().partition(|(pattern, _)| is_lost(pattern.source));
        queues.posted = posted;
        VecDeque::into_iter(failed).map(|(_, receive)| receive).collect()
    }

    /// Whether no receive is posted in the context of this pattern, and no stored message matches it.
    #[inline]
    pub fn would_wait(&self, pattern: &Pattern) -> bool {
        let waits = |queues: &Queues<R, M>| queues.posted.is_empty() && queues.unexpected.look(pattern).is_none();
        self.contexts.get(&pattern.context).is_none_or(waits)
    }

    /// Whether no context is known.
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Removes a context and returns the receives and messages that waited in it.
    pub fn forget(&mut self, context: u64) -> (Vec<R>, Vec<M>) {
        let Some(queues) = self.contexts.remove(&context) else { return (Vec::new(), Vec::new()) };
        let receives = queues.posted.into_iter().map(|(_, receive)| receive).collect();
        (receives, queues.unexpected.into_messages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn envelope(context: u64, source: i32, tag: i32) -> Envelope {
        Envelope { context, source, tag }
    }

    #[test]
    fn messages_of_one_source_do_not_overtake_each_other() {
        let mut matching: Matching<u32, u32> = Matching::default();
        matching.keep(envelope(1, 0, 7), 1);
        matching.keep(envelope(1, 0, 7), 2);
        matching.keep(envelope(2, 0, 7), 3);
        let any = Pattern { context: 1, source: None, tag: None };
        assert_eq!(matching.look(&any).map(|(_, message)| *message), Some(1));
        assert_eq!(matching.take(&any).map(|(_, message)| message), Some(1));
        assert_eq!(matching.take(&any).map(|(_, message)| message), Some(2));
        assert_eq!(matching.take(&any), None);
    }

    #[test]
    fn the_receive_that_was_posted_first_gets_the_message() {
        let mut matching: Matching<u32, u32> = Matching::default();
        matching.post(Pattern { context: 1, source: Some(3), tag: None }, 1);
        matching.post(Pattern { context: 1, source: None, tag: Some(5) }, 2);
        matching.post(Pattern { context: 1, source: None, tag: None }, 3);
        assert_eq!(matching.arrive(&envelope(1, 2, 5)), Some(2));
        assert_eq!(matching.arrive(&envelope(1, 3, 5)), Some(1));
        assert_eq!(matching.cancel(1, |receive| *receive == 3), Some(3));
        assert_eq!(matching.arrive(&envelope(1, 3, 5)), None);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Send(i32, i32),
        Receive(Option<i32>, Option<i32>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let (source, tag) = (0..3i32, 0..3i32);
        prop_oneof![
            (source.clone(), tag.clone()).prop_map(|(source, tag)| Step::Send(source, tag)),
            (proptest::option::of(source), proptest::option::of(tag)).prop_map(|(s, t)| Step::Receive(s, t)),
        ]
    }

    proptest! {
        /// In any order of sends and receives, the matches are those found by searching the whole history.
        #[test]
        fn every_message_goes_where_the_standard_says(steps in proptest::collection::vec(step(), 1..60)) {
            let mut matching: Matching<usize, usize> = Matching::default();
            let (mut matched, mut history) = (Vec::new(), Vec::new());
            let mut waiting_sends: Vec<(usize, Envelope)> = Vec::new();
            let mut waiting_receives: Vec<(usize, Pattern)> = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                match *step {
                    Step::Send(source, tag) => {
                        let envelope = envelope(9, source, tag);
                        match matching.arrive(&envelope) {
                            Some(receive) => matched.push((number, receive)),
                            None => matching.keep(envelope, number),
                        }
                        match waiting_receives.iter().position(|(_, pattern)| pattern.takes(&envelope)) {
                            Some(index) => history.push((number, waiting_receives.remove(index).0)),
                            None => waiting_sends.push((number, envelope)),
                        }
                    }
                    Step::Receive(source, tag) => {
                        let pattern = Pattern { context: 9, source, tag };
                        match matching.take(&pattern) {
                            Some((_, message)) => matched.push((message, number)),
                            None => matching.post(pattern, number),
                        }
                        match waiting_sends.iter().position(|(_, envelope)| pattern.takes(envelope)) {
                            Some(index) => history.push((waiting_sends.remove(index).0, number)),
                            None => waiting_receives.push((number, pattern)),
                        }
                    }
                }
            }
            prop_assert_eq!(matched, history);
        }
    }
}
