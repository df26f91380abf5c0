//! Changes an input: a few bits, its numbers and lengths, its order, its length; parts of other inputs, and of what such
//! inputs are made of.

use std::ops::Range;

use fastrand::Rng;

/// The longest input; long ones say little that short ones do not, and take longer.
const LONGEST: usize = 1 << 16;

/// What overflows, is cut off, or asks for more than there is.
const NUMBERS: &[&str] = &[
    "-1",
    "0",
    "1",
    "-2",
    "255",
    "65536",
    "1048577",
    "67108864",
    "2147483647",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211455",
    "1e999",
    "-0.0",
    "NaN",
    "007",
    "+5",
    "",
];

const BINARY: &[i64] =
    &[0, 1, -1, 4, 1 << 16, 1 << 26, (1 << 26) + 1, 1 << 30, i32::MAX as i64, i64::MAX, i64::MIN];

/// A mutation of `input`, with parts of `others` and `tokens`.
pub(crate) fn mutate(input: &[u8], others: &[Vec<u8>], tokens: &[&str], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let times = 1 << rng.u32(0..5);
    for _ in 0..rng.u32(1..=times) {
        once(&mut bytes, others, tokens, rng);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn once(bytes: &mut Vec<u8>, others: &[Vec<u8>], tokens: &[&str], rng: &mut Rng) {
    match rng.u32(0..16) {
        0 | 1 => {
            if let Some(byte) = choose_mut(bytes, rng) {
                *byte ^= 1 << rng.u32(0..8);
            }
        }
        2 => {
            if let Some(byte) = choose_mut(bytes, rng) {
                *byte = rng.u8(..);
            }
        }
        3 => {
            let new: Vec<u8> = (0..rng.usize(1..8)).map(|_| rng.u8(..)).collect();
            insert(bytes, &new, rng);
        }
        4 | 5 => drop(bytes.drain(part(bytes.len(), rng))),
        6 => {
            let copy = bytes[part(bytes.len(), rng)].to_vec();
            insert(bytes, &copy, rng);
        }
        7 => {
            let some = part(bytes.len().min(64), rng);
            let copy = bytes[some].repeat(rng.usize(1..200));
            insert(bytes, &copy[..copy.len().min(LONGEST / 4)], rng);
        }
        8 => bytes.truncate(rng.usize(0..=bytes.len())),
        9 | 10 => {
            let at = number(bytes, rng);
            let new = NUMBERS[rng.usize(..NUMBERS.len())].as_bytes().to_vec();
            bytes.splice(at, new);
        }
        11 => {
            let (number, wide) = (BINARY[rng.usize(..BINARY.len())], rng.bool());
            let new =
                if wide { number.to_be_bytes().to_vec() } else { (number as i32).to_be_bytes().to_vec() };
            let at = rng.usize(0..=bytes.len());
            let end = (at + new.len()).min(bytes.len());
            bytes.splice(at..end, new);
        }
        12 | 13 if !tokens.is_empty() => {
            let token = tokens[rng.usize(..tokens.len())].as_bytes();
            insert(bytes, token, rng);
        }
        _ if !others.is_empty() => {
            let other = &others[rng.usize(..others.len())];
            let piece = other[part(other.len(), rng)].to_vec();
            let at = if rng.bool() { part(bytes.len(), rng) } else { bytes.len()..bytes.len() };
            bytes.splice(at, piece);
        }
        _ => {}
    }
}

fn choose_mut<'a>(bytes: &'a mut [u8], rng: &mut Rng) -> Option<&'a mut u8> {
    let at = rng.usize(..bytes.len().max(1));
    bytes.get_mut(at)
}

fn insert(bytes: &mut Vec<u8>, new: &[u8], rng: &mut Rng) {
    let at = rng.usize(0..=bytes.len());
    bytes.splice(at..at, new.iter().copied());
}

/// Some part of something of this length; mostly a short one.
fn part(length: usize, rng: &mut Rng) -> Range<usize> {
    let start = rng.usize(0..=length);
    let most = if rng.u32(0..4) == 0 { length } else { 16 };
    start..(start + rng.usize(0..=most)).min(length)
}

/// A number in decimal, if there is one after some place.
fn number(bytes: &[u8], rng: &mut Rng) -> Range<usize> {
    let from = rng.usize(0..=bytes.len());
    let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else {
        return part(bytes.len(), rng);
    };
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    start..start + digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs_again() {
        let all = |seed| {
            let mut rng = Rng::with_seed(seed);
            let others = [b"*1\r\n$5\r\nother\r\n".to_vec()];
            (0..500).map(|_| mutate(b"+OK\r\n:17\r\n", &others, &["$-1\r\n"], &mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(all(7), all(7));
        assert_ne!(all(7), all(8));
        assert!(all(7).iter().any(Vec::is_empty) && all(7).iter().all(|input| input.len() <= LONGEST));
        assert_eq!(number(b"ab17c", &mut Rng::with_seed(1)).len().min(1), 1);
    }
}
