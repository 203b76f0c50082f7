//! Tokens over plain integers. A real program pickles objects; here each object is one number.
//!
//! A number encodes its task and its path: instruction `i` appends the digit `i + 1`. So a result shows whether every
//! instruction was fired once, in the order of the chain, on the right task.

use crate::wire::Tokens;
use bytes::Bytes;

/// Number of paths that fit into a number: chains of up to four instructions.
const WAYS: u64 = 100_000;
/// Every so many tasks one has an attached buffer.
const ATTACHED: u64 = 3;

/// How numbers are put into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Packed,
    Separate,
}

/// The number that represents task number `task` of a stream.
pub fn of_task(task: u64) -> u64 {
    task * WAYS
}

/// The task of a number.
pub fn task_of(number: u64) -> u64 {
    number / WAYS
}

/// What an instruction's function gives.
pub fn apply(instruction: u16, number: u64) -> u64 {
    let way = number % WAYS * 10 + u64::from(instruction) + 1;
    of_task(task_of(number)) + way
}

/// The result of a task after a chain of `instructions` instructions.
pub fn result(task: u64, instructions: u16) -> u64 {
    (0..instructions).fold(of_task(task), |number, instruction| apply(instruction, number))
}

/// Numbers as tokens of eight bytes; some separate ones have a buffer beside them.
pub fn tokens(form: Form, numbers: &[u64]) -> Tokens {
    let pickles: Bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    if form == Form::Packed {
        return Tokens::packed(numbers.len() as u32, pickles);
    }
    let attached = (0..).zip(numbers).filter(|(_, number)| task_of(**number) % ATTACHED == 0);
    let attached = attached.map(|(token, number)| (token, buffer_of(*number))).collect();
    Tokens::separate(pickles, vec![8; numbers.len()], attached)
}

/// The numbers in tokens. Panics if a token lacks what it was sent with.
pub fn numbers(tokens: &Tokens) -> Vec<u64> {
    let pickles = tokens.parts()[0].chunks_exact(8);
    let numbers: Vec<u64> = pickles.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes"))).collect();
    let expected = match tokens.parts().len() {
        1 => return numbers,
        _ => self::tokens(Form::Separate, &numbers),
    };
    assert_eq!(tokens.shape(), expected.shape(), "buffers went to other tokens");
    assert_eq!(tokens.parts(), expected.parts(), "buffers were mixed up");
    numbers
}

fn buffer_of(number: u64) -> Bytes {
    vec![number as u8; 1 + (task_of(number) % 70) as usize].into()
}

#[test]
fn numbers_survive_as_tokens() {
    let sent: Vec<u64> = (0..9).map(|task| result(task, 2)).collect();
    for form in [Form::Packed, Form::Separate] {
        assert_eq!(numbers(&tokens(form, &sent)), sent);
    }
    assert_eq!(result(7, 3), 700_123);
}
