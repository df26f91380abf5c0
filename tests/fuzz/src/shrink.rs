//! Makes an input that fails shorter, as long as it still fails.

/// How often it is tried at most.
const TRIES: usize = 2000;

/// Removes parts, long ones first, while `fails` says that what is left still fails.
pub(crate) fn shrink(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let (mut shortest, mut tries) = (input.to_vec(), 0);
    let mut size = shortest.len() / 2;
    while size > 0 {
        let (mut at, before) = (0, shortest.len());
        while at < shortest.len() && tries < TRIES {
            let mut candidate = shortest.clone();
            candidate.drain(at..(at + size).min(shortest.len()));
            tries += 1;
            match fails(&candidate) {
                true => shortest = candidate,
                false => at += size,
            }
        }
        if shortest.len() == before {
            size /= 2;
        }
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_stays() {
        let fails = |input: &[u8]| input.windows(3).any(|part| part == b"bad");
        assert_eq!(shrink(b"a lot of text, then bad, and more of it", fails), b"bad");
        assert_eq!(shrink(b"x", |_| false), b"x");
    }
}
