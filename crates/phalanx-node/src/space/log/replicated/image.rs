//! A snapshot of a member's whole state, sent to another member in pieces. Each piece has a bounded size, and none is held in
//! memory.

use super::facts::{LEAD, LIMITS, fact};
use crate::space::log::LogError;
use crate::space::log::records::{self, pack, unpack};
use crate::space::log::store::Store;
use bytes::Bytes;
use phalanx_core::space::change::{self, Change};
use redb::ReadTransaction;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::sync::Arc;

/// Target size of a piece, in bytes. A piece with a single change may be larger.
const PIECE: usize = 1 << 20;
/// Largest piece that is read back, in bytes.
const MOST_PIECE: u32 = 1 << 31;

/// A snapshot of a state.
pub enum Image {
    /// A snapshot of this member, as of the beginning of the transaction.
    Here(Arc<Store>, Box<ReadTransaction>),
    /// A snapshot received from another member, in a file without a name.
    There(Box<BufWriter<File>>),
}

impl Image {
    /// An empty file for a snapshot to be received.
    pub fn receiving() -> std::io::Result<Image> {
        Ok(Image::There(Box::new(BufWriter::new(tempfile::tempfile()?))))
    }

    /// Passes the pieces to the callback.
    pub fn send(&self, mut piece: impl FnMut(Bytes) -> Result<(), LogError>) -> Result<(), LogError> {
        let Image::Here(store, reading) = self else { return Err(LogError::Closed) };
        piece(pack(&fact::<u64>(store, reading, LEAD)?).into())?;
        let (mut changes, mut bytes) = (Vec::new(), 0);
        records::each(store, reading, |change| {
            bytes += change.size();
            changes.push(change);
            if bytes < PIECE {
                return Ok(());
            }
            bytes = 0;
            piece(change::encode(&std::mem::take(&mut changes)).into())
        })?;
        piece(change::encode(&changes).into())
    }

    /// Appends the next received piece.
    pub fn take(&mut self, piece: &[u8]) -> std::io::Result<()> {
        let Image::There(file) = self else { return Err(std::io::ErrorKind::Unsupported.into()) };
        file.write_all(&(piece.len() as u32).to_le_bytes())?;
        file.write_all(piece)
    }

    /// Reads the received snapshot: returns the entry since which an engine leads, and applies the changes group by group.
    pub fn read(
        self,
        store: &Store,
        mut apply: impl FnMut(&[Change]) -> Result<(), LogError>,
    ) -> Result<Option<u64>, LogError> {
        let wrong = |error: std::io::Error| store.damaged(format!("a state from another member: {error}"));
        let Image::There(file) = self else { return Err(LogError::Closed) };
        let mut file = file.into_inner().map_err(|error| wrong(error.into_error()))?;
        file.rewind().map_err(wrong)?;
        let mut file = BufReader::new(file);
        let first = next(&mut file).map_err(wrong)?.ok_or_else(|| store.damaged("a state that is empty"))?;
        let lead = unpack(store, &first)?;
        while let Some(piece) = next(&mut file).map_err(wrong)? {
            let changes = change::decode(&piece, &LIMITS).map_err(|error| store.damaged(error))?;
            apply(&changes)?;
        }
        Ok(lead)
    }
}

fn next(file: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match file.read_exact(&mut length) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length);
    if length > MOST_PIECE {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut piece = Vec::new();
    file.take(u64::from(length)).read_to_end(&mut piece)?;
    if piece.len() == length as usize { Ok(Some(piece)) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}
