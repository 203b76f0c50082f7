//! The protocol between members: each message has one answer. Carrying the messages is left to an implementation of `Network`.

use super::types::{SnapshotMeta, Types, Vote};
use crate::space::log::LogError;
use crate::space::log::records::pack;
use bytes::Bytes;
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::storage::Snapshot;
use phalanx_core::space::Replica;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Timeout for one piece of a snapshot to be accepted, and for the last one to be installed.
const PIECE_PATIENCE: Duration = Duration::from_secs(60);
/// Most pieces of a snapshot that wait to be sent.
const PIECES: usize = 2;
const RETRY: Duration = Duration::from_millis(200);

/// An answer that arrives later.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Carries messages to other members.
pub trait Network: Send + Sync + 'static {
    /// Sends a message to a member, which passes it to its `Replicated::answer`, and returns the answer. The message or the
    /// answer may be lost or late. The caller waits for `patience` at most.
    fn ask(&self, to: &Replica, message: Bytes, patience: Duration) -> Later<io::Result<Bytes>>;
}

/// A message to another member.
#[derive(Serialize, Deserialize)]
pub enum Message {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<u64>),
    /// One piece of a snapshot. `part` numbers the pieces of the transfer, from 0.
    Piece {
        transfer: u64,
        part: u64,
        piece: Bytes,
    },
    /// All pieces of a transfer were sent: their number, and what they contain.
    Install {
        transfer: u64,
        parts: u64,
        vote: Vote,
        meta: SnapshotMeta,
    },
}

/// The other member's answer.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    Append(AppendEntriesResponse<u64>),
    Vote(VoteResponse<u64>),
    Taken,
    Installed(SnapshotResponse<u64>),
    Refused(String),
}

/// Creates connections to other members.
#[derive(Clone)]
pub struct Ways(pub Arc<dyn Network>);

/// The connection to one member. The member's number goes with every message, because its address may have belonged to another
/// member.
#[derive(Clone)]
pub struct Way {
    network: Arc<dyn Network>,
    member: u64,
    node: Replica,
}

impl RaftNetworkFactory<Types> for Ways {
    type Network = Way;

    async fn new_client(&mut self, member: u64, node: &Replica) -> Way {
        Way { network: self.0.clone(), member, node: node.clone() }
    }
}

impl Way {
    async fn ask(&self, message: &Message, patience: Duration) -> io::Result<Answer> {
        let answer = self.network.ask(&self.node, pack(&(self.member, message)).into(), patience).await?;
        match postcard::from_bytes(&answer) {
            Ok(Answer::Refused(why)) => Err(io::Error::other(why)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(wrong()),
        }
    }
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer that makes no sense")
}

type Failed = RPCError<u64, Replica, RaftError<u64>>;

fn unreachable(error: io::Error) -> Failed {
    RPCError::Unreachable(Unreachable::new(&error))
}

impl RaftNetwork<Types> for Way {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed> {
        match self.ask(&Message::Append(request), option.hard_ttl()).await {
            Ok(Answer::Append(answer)) => Ok(answer),
            Ok(_) => Err(unreachable(wrong())),
            Err(error) => Err(unreachable(error)),
        }
    }

    async fn vote(&mut self, request: VoteRequest<u64>, option: RPCOption) -> Result<VoteResponse<u64>, Failed> {
        match self.ask(&Message::Vote(request), option.hard_ttl()).await {
            Ok(Answer::Vote(answer)) => Ok(answer),
            Ok(_) => Err(unreachable(wrong())),
            Err(error) => Err(unreachable(error)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<Types>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Types, Fatal<u64>>> {
        let way = self.clone();
        let sent = async move { way.send(vote, snapshot).await };
        tokio::select! {
            sent = sent => sent.map_err(|error| StreamingError::Unreachable(Unreachable::new(&error))),
            closed = cancel => Err(StreamingError::Closed(closed)),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(RETRY))
    }
}

impl Way {
    async fn send(&self, vote: Vote, snapshot: Snapshot<Types>) -> io::Result<SnapshotResponse<u64>> {
        let (meta, image) = (snapshot.meta, snapshot.snapshot);
        let transfer = meta.last_log_id.map_or(0, |last| last.index);
        let (give, mut pieces) = tokio::sync::mpsc::channel(PIECES);
        let reader = tokio::task::spawn_blocking(move || {
            image.send(|piece| give.blocking_send(piece).map_err(|_| LogError::Closed))
        });
        let mut part = 0;
        while let Some(piece) = pieces.recv().await {
            match self.ask(&Message::Piece { transfer, part, piece }, PIECE_PATIENCE).await? {
                Answer::Taken => part += 1,
                _ => return Err(wrong()),
            }
        }
        reader.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        match self.ask(&Message::Install { transfer, parts: part, vote, meta }, PIECE_PATIENCE).await? {
            Answer::Installed(response) => Ok(response),
            _ => Err(wrong()),
        }
    }
}
