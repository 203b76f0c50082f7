//! The line that a donor types to join a grid.
//!
//! ```text
//! "phalanx1-", then base64url of:  length, name of the grid | role | number of addresses, then length, address each
//!                                  | 32 bytes: digest of the root's certificate | 16 bytes: secret | 4 bytes: check
//! ```
//!
//! The digest pins the grid's root before the first contact. The check tells a mistyped token from a wrong one; it protects from
//! nothing.

use crate::wire::hub::MOST_ADDRESSES;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

const PREFIX: &str = "phalanx1-";
/// Longest token that is read, in bytes.
const LONGEST: usize = 4096;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a token says.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The name of the grid.
    pub grid: String,
    /// The word of the role for which it is good, or [`OWNER`](super::OWNER). The hub goes by its own record, and not by this.
    pub role: String,
    /// Where hubs of the grid are reached.
    pub hubs: Vec<String>,
    /// The SHA-256 digest of the certificate of the grid's root.
    pub root: [u8; 32],
    /// The secret of the invitation.
    pub secret: [u8; 16],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({} as {})", self.grid, self.role) // the secret stays out of logs
    }
}

/// A text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It does not begin as one.
    #[error(
        "this is no token: one begins with phalanx1-, and is the last word of the line that phalanx up or phalanx invite prints"
    )]
    Other,
    /// It was cut off or mistyped.
    #[error("the token is damaged: copy the whole line that phalanx up or phalanx invite prints")]
    Damaged,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        put(&mut bytes, &self.grid);
        put(&mut bytes, &self.role);
        bytes.push(self.hubs.len() as u8);
        self.hubs.iter().for_each(|hub| put(&mut bytes, hub));
        bytes.extend_from_slice(&self.root);
        bytes.extend_from_slice(&self.secret);
        let check = check(&bytes);
        bytes.extend_from_slice(&check);
        write!(f, "{PREFIX}{}", to_letters(&bytes))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        let letters = text.trim().strip_prefix(PREFIX).ok_or(TokenError::Other)?;
        Token::read(letters).filter(|token| token.to_string() == text.trim()).ok_or(TokenError::Damaged)
    }
}

impl Token {
    fn read(letters: &str) -> Option<Token> {
        let bytes = from_letters(letters)?;
        let (said, found) = bytes.split_last_chunk::<4>()?;
        if *found != check(said) {
            return None;
        }
        let mut rest = said;
        let (grid, role) = (take(&mut rest)?, take(&mut rest)?);
        let (count, after) = rest.split_first()?;
        rest = after;
        if usize::from(*count) > MOST_ADDRESSES {
            return None;
        }
        let hubs = (0..*count).map(|_| take(&mut rest)).collect::<Option<_>>()?;
        let (root, rest) = rest.split_first_chunk::<32>()?;
        let secret = rest.try_into().ok()?;
        Some(Token { grid, role, hubs, root: *root, secret })
    }
}

fn put(bytes: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(255)];
    bytes.push(text.len() as u8);
    bytes.extend_from_slice(text);
}

fn take(rest: &mut &[u8]) -> Option<String> {
    let (length, after) = rest.split_first()?;
    let (text, after) = after.split_at_checked(usize::from(*length))?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}

/// FNV-1a of 32 bits, which differs if one byte differs.
fn check(bytes: &[u8]) -> [u8; 4] {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step).to_be_bytes()
}

/// Base64 with the letters of RFC 4648, section 5, without padding.
/// Bytes as letters of a terminal: base64url without padding.
pub fn to_letters(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        let letter = |at: usize| char::from(LETTERS[(word >> (18 - 6 * at)) as usize & 63]);
        text.extend((0..=chunk.len()).map(letter));
    }
    text
}

/// The bytes of [`to_letters`]. `None`: these are no such letters, or more than a token has.
pub fn from_letters(text: &str) -> Option<Vec<u8>> {
    let values = text.bytes().map(|letter| LETTERS.iter().position(|it| *it == letter).map(|value| value as u32));
    let values: Vec<u32> = if text.len() <= LONGEST { values.collect::<Option<_>>()? } else { return None };
    let mut bytes = Vec::new();
    for chunk in values.chunks(4) {
        let word = chunk.iter().fold(0, |word, value| word << 6 | value) << (6 * (4 - chunk.len()));
        let byte = |at: usize| (word >> (16 - 8 * at)) as u8;
        bytes.extend((0..chunk.len().saturating_sub(1)).map(byte));
    }
    Some(bytes)
}
