//! Facts about a space that can be kept on disk and sent. Applied in order to an empty space, they rebuild its state.
//!
//! The engine decides and turns each decision into one group of changes. A group is applied whole or not at all. A
//! snapshot of the state is a list of changes too: the shortest one that leads to that state. On the wire and on disk,
//! changes are encoded with `postcard`.

use super::past::{MOST_OPEN, Past};
use super::reader::{Limits, Reader};
use super::value::Tuple;
use crate::error::EncodingError;
use crate::ids::TransactionId;
use crate::wire::space::{Coordinator, Once, Options, RequestId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Limit on the tuples that one prepared transaction puts and takes together.
pub const MOST_PREPARED: usize = 1 << 20;
/// Limit in bytes on the card of a member of a spread space.
pub const MOST_CARD: usize = 1 << 16;
/// Limit in bytes on a user's name. A certificate has at most 63 bytes for it.
const MOST_USER: usize = 256;

/// A fact about a space. Times are milliseconds since the Unix epoch, so that they stay valid on another machine and
/// after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Change {
    /// The first change of every log: the options of the space.
    Opened { options: Box<Options> },
    /// All numbers below `next` were given to tuples and are never given again.
    Numbered { next: u64 },
    /// A tuple was put.
    Put { number: u64, record: Record },
    /// A tuple is gone: it was taken, or its lease expired.
    Gone { number: u64 },
    /// A tuple was taken and sent to a taker that has not acknowledged it yet. `Gone` or `Back` follows.
    Taken { number: u64, taker: Taker },
    /// A tuple is in the space again because its taker is gone.
    Back { number: u64 },
    /// The lease of a tuple now expires at this time; `None`: never.
    Expires { number: u64, expires: Option<u64> },
    /// A transaction promised that it can be committed. Its puts and takes stay invisible to others until it ends.
    Prepared { transaction: TransactionId, prepared: Prepared },
    /// A prepared transaction ended. If it was committed, all its effects happen now; otherwise none do.
    Ended { transaction: TransactionId, committed: bool },
    /// How a transaction ended whose effects are separate changes. Kept for clients that ask again.
    HasEnded { transaction: TransactionId, committed: bool },
    /// A client is registered, with the record of its past requests.
    Client { client: u128, past: Past },
    /// The space has forgotten a client.
    Forgotten { client: u128 },
    /// A client's request was done, by the changes of this group.
    Done { once: Once, outcome: u64 },
    /// The coordinator, another space, decides how this transaction ends. It was prepared here at `since`.
    LeftTo { transaction: TransactionId, coordinator: Coordinator, since: u64 },
    /// The card of a member of a spread space. Empty: the space is no member of a spread space.
    Card { card: Bytes },
    /// The space's own random number, which no other space has.
    Identity { identity: u128 },
}

/// A tuple and the options that it was put with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The tuple.
    #[serde(with = "unchecked")]
    pub tuple: Tuple,
    /// An encoded field, unique among the tuples of the space.
    pub key: Option<Bytes>,
    /// An encoded field that many tuples may share.
    pub label: Option<Bytes>,
    /// The priority.
    pub priority: i64,
    /// When the lease expires; `None`: never.
    pub expires: Option<u64>,
    /// The user who put the tuple, if the space tells users apart. The lease belongs to this user.
    pub user: Option<String>,
    /// The taker, while the tuple is on its way to it.
    pub taker: Option<Taker>,
}

/// The client that takes a tuple, and the number of its request. The client keeps its random number across
/// reconnections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Taker {
    /// The client's random number.
    pub client: u128,
    /// The number of its request.
    pub request: RequestId,
}

/// The effects of a prepared transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The time at which it is aborted, if it has not ended by then.
    pub until: u64,
    /// The tuples to put, and their numbers.
    pub puts: Vec<(u64, Record)>,
    /// Numbers of the tuples to take. Until the end, they stay stored but reserved for this transaction.
    pub takes: Vec<u64>,
}

/// Why bytes are not valid changes, or do not belong to this space.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text of each error says what it is")]
pub enum ChangeError {
    #[error("bytes that are no changes of a space, or of another version of phalanx")]
    Unknown,
    #[error("a change holds what is no field or tuple: {0}")]
    Encoding(#[from] EncodingError),
    #[error("a prepared transaction of more than {MOST_PREPARED} tuples")]
    TooMany,
    #[error("what members know of each other is longer than {MOST_CARD} bytes")]
    Card,
    #[error("a transaction without a coordinator that can be asked")]
    Coordinator,
    #[error("a client of whom more than {MOST_OPEN} requests are remembered")]
    TooManyDone,
}

/// Encodes a group of changes.
pub fn encode(changes: &[Change]) -> Vec<u8> {
    postcard::to_stdvec(changes).expect("changes have no map and no length that is unknown")
}

/// Decodes and checks a group of changes from a disk or from another member.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Vec<Change>, ChangeError> {
    let (changes, rest) = postcard::take_from_bytes::<Vec<Change>>(bytes).map_err(|_| ChangeError::Unknown)?;
    if !rest.is_empty() {
        return Err(ChangeError::Unknown);
    }
    changes.iter().try_for_each(|change| change.check(limits))?;
    Ok(changes)
}

impl Change {
    /// Approximate size in bytes.
    pub fn size(&self) -> usize {
        match self {
            Change::Put { record, .. } => record.size(),
            Change::Prepared { prepared, .. } => {
                32 + prepared.puts.iter().map(|(_, record)| record.size()).sum::<usize>() + prepared.takes.len() * 10
            }
            Change::Card { card } => 32 + card.len(),
            Change::LeftTo { coordinator, .. } => 32 + coordinator.size(),
            Change::Client { past, .. } => 32 + past.user.as_ref().map_or(0, String::len) + past.done.len() * 20,
            _ => 32,
        }
    }

    fn check(&self, limits: &Limits) -> Result<(), ChangeError> {
        match self {
            Change::Put { record, .. } => record.check(limits),
            Change::Prepared { prepared, .. } => prepared.check(limits),
            Change::Client { past, .. } if past.done.len() as u64 > MOST_OPEN => Err(ChangeError::TooManyDone),
            Change::Client { past, .. } => check_user(past.user.as_ref()),
            Change::Card { card } if card.len() > MOST_CARD => Err(ChangeError::Card),
            Change::LeftTo { coordinator, .. } => coordinator.check().map_err(|_| ChangeError::Coordinator),
            _ => Ok(()),
        }
    }
}

impl Record {
    /// A tuple without key, label, priority, lease or user.
    pub fn of(tuple: Tuple) -> Record {
        Record { tuple, key: None, label: None, priority: 0, expires: None, user: None, taker: None }
    }

    fn size(&self) -> usize {
        let said = self.key.iter().chain(&self.label).map(Bytes::len).sum::<usize>();
        self.tuple.bytes().len() + said + self.user.as_ref().map_or(0, String::len) + 64
    }

    /// Checks a record that came from elsewhere against the limits.
    pub fn check(&self, limits: &Limits) -> Result<(), ChangeError> {
        Tuple::check(self.tuple.bytes().clone(), limits)?;
        for field in self.key.iter().chain(&self.label) {
            let mut reader = Reader::new(field);
            reader.check(0, limits)?;
            reader.end()?;
        }
        check_user(self.user.as_ref())
    }
}

fn check_user(name: Option<&String>) -> Result<(), ChangeError> {
    match name.is_some_and(|name| name.len() > MOST_USER) {
        true => Err(ChangeError::Unknown),
        false => Ok(()),
    }
}

impl Prepared {
    /// Checks a prepared transaction that came from elsewhere against the limits.
    pub fn check(&self, limits: &Limits) -> Result<(), ChangeError> {
        if self.puts.len() + self.takes.len() > MOST_PREPARED {
            return Err(ChangeError::TooMany);
        }
        self.puts.iter().try_for_each(|(_, record)| record.check(limits))
    }
}

/// (De)serializes a tuple as plain bytes without checking them. `decode` checks them afterwards, because it knows the
/// limits.
mod unchecked {
    use super::{Bytes, Tuple};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(tuple: &Tuple, to: S) -> Result<S::Ok, S::Error> {
        tuple.bytes().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tuple, D::Error> {
        Bytes::deserialize(from).map(Tuple::known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Value;
    use proptest::prelude::*;

    fn past() -> impl Strategy<Value = Past> {
        let done = proptest::collection::btree_map(any::<u64>(), any::<u64>(), 0..3);
        (proptest::option::of("[a-z]{1,63}"), any::<u64>(), done).prop_map(|(user, open_from, done)| Past {
            user,
            open_from,
            done,
        })
    }

    fn record() -> impl Strategy<Value = Record> {
        let field = || proptest::option::of(any::<u64>().prop_map(|key| Value::Int(key as i64).to_bytes().into()));
        let taker = proptest::option::of(any::<(u128, u64)>().prop_map(|(client, request)| Taker { client, request }));
        let user = proptest::option::of("[a-z]{1,63}");
        (any::<i64>(), ".{0,40}", field(), field(), any::<i64>(), any::<Option<u64>>(), user, taker).prop_map(
            |(number, text, key, label, priority, expires, user, taker)| {
                let tuple = Tuple::of(&[Value::Int(number), Value::Str(text)]);
                Record { tuple, key, label, priority, expires, user, taker }
            },
        )
    }

    fn change() -> impl Strategy<Value = Change> {
        let transaction = || any::<u128>().prop_map(TransactionId);
        let prepared = (any::<u64>(), proptest::collection::vec((any::<u64>(), record()), 0..3), any::<Vec<u64>>())
            .prop_map(|(until, puts, takes)| Prepared { until, puts, takes });
        let taker = any::<(u128, u64)>().prop_map(|(client, request)| Taker { client, request });
        prop_oneof![
            Just(Change::Opened { options: Box::default() }),
            any::<u64>().prop_map(|next| Change::Numbered { next }),
            (any::<u64>(), record()).prop_map(|(number, record)| Change::Put { number, record }),
            any::<u64>().prop_map(|number| Change::Gone { number }),
            (any::<u64>(), taker).prop_map(|(number, taker)| Change::Taken { number, taker }),
            any::<u64>().prop_map(|number| Change::Back { number }),
            any::<(u64, Option<u64>)>().prop_map(|(number, expires)| Change::Expires { number, expires }),
            (transaction(), prepared).prop_map(|(transaction, prepared)| Change::Prepared { transaction, prepared }),
            (transaction(), any::<bool>())
                .prop_map(|(transaction, committed)| Change::Ended { transaction, committed }),
            (transaction(), any::<bool>())
                .prop_map(|(transaction, committed)| Change::HasEnded { transaction, committed }),
            (any::<u128>(), past()).prop_map(|(client, past)| Change::Client { client, past }),
            any::<u128>().prop_map(|client| Change::Forgotten { client }),
            any::<(u128, u64, u64, u64)>().prop_map(|(client, number, open_from, outcome)| Change::Done {
                once: Once { client, number, open_from },
                outcome
            }),
            any::<Vec<u8>>().prop_map(|card| Change::Card { card: card.into() }),
            any::<u128>().prop_map(|identity| Change::Identity { identity }),
            (transaction(), proptest::collection::vec("[a-z:0-9]{1,20}", 1..3), "[a-z]{1,9}", any::<(u64, bool)>())
                .prop_map(|(transaction, places, space, (since, durable))| {
                    let coordinator = Coordinator { places, space, identity: 5, durable };
                    Change::LeftTo { transaction, coordinator, since }
                }),
        ]
    }

    proptest! {
        #[test]
        fn changes_come_back_as_they_were(changes in proptest::collection::vec(change(), 0..8)) {
            prop_assert_eq!(decode(&encode(&changes), &Limits::default()), Ok(changes));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, &Limits::default());
        }

        #[test]
        fn a_changed_byte_gives_an_error_or_changes_that_are_sound(
            changes in proptest::collection::vec(change(), 1..4), at in any::<usize>(), byte in any::<u8>()
        ) {
            let mut bytes = encode(&changes);
            let at = at % bytes.len();
            bytes[at] = byte;
            for changed in decode(&bytes, &Limits::default()).into_iter().flatten() {
                if let Change::Put { record, .. } = changed {
                    prop_assert!(Tuple::check(record.tuple.into_bytes(), &Limits::default()).is_ok());
                }
            }
        }

        #[test]
        fn what_is_cut_off_or_follows_is_refused(changes in proptest::collection::vec(change(), 1..4), at in any::<usize>()) {
            let mut bytes = encode(&changes);
            prop_assert!(decode(&bytes[..at % bytes.len()], &Limits::default()).is_err());
            bytes.push(0);
            prop_assert_eq!(decode(&bytes, &Limits::default()), Err(ChangeError::Unknown));
        }
    }

    #[test]
    fn a_transaction_without_effects_has_a_size_too() {
        let (transaction, prepared) = (TransactionId(1), Prepared::default());
        assert!(Change::Prepared { transaction, prepared }.size() > 0, "so many of them are sent in pieces");
    }

    #[test]
    fn a_tuple_over_the_limit_and_a_key_that_is_no_field_are_refused() {
        let put = |record| encode(&[Change::Put { number: 1, record }]);
        let record = Record::of(Tuple::of(&[Value::Int(1), Value::Int(2)]));
        let small = Limits { fields: 1, ..Limits::default() };
        assert!(decode(&put(record.clone()), &Limits::default()).is_ok());
        assert!(matches!(decode(&put(record.clone()), &small), Err(ChangeError::Encoding(_))));
        let keyed = |key: &'static [u8]| Record { key: Some(Bytes::from_static(key)), ..record.clone() };
        assert!(decode(&put(keyed(&[0])), &Limits::default()).is_ok());
        for no_field in [&[][..], &[77], &[0, 0], &[6, 200]] {
            assert!(decode(&put(keyed(no_field)), &Limits::default()).is_err(), "{no_field:?}");
        }
        let by = |user: String| put(Record { user: Some(user), ..record.clone() });
        assert!(decode(&by("ada".into()), &Limits::default()).is_ok());
        assert_eq!(decode(&by("a".repeat(1000)), &Limits::default()), Err(ChangeError::Unknown));
        let past = Past { user: Some("a".repeat(1000)), ..Past::default() };
        let client = encode(&[Change::Client { client: 1, past }]);
        assert_eq!(decode(&client, &Limits::default()), Err(ChangeError::Unknown));
    }
}
