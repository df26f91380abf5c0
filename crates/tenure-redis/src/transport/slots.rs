//! The slot of a key in a cluster: CRC16 of its hash tag, or of all of it.

pub(crate) const SLOTS: usize = 16384;

pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS as u16
}

/// The text between the first `{` and the next `}`; the whole key if there is none or it is empty.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|b| *b == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|b| *b == b'}') {
        Some(close) if close > 0 => &inside[..close],
        _ => key,
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = ((i as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_server_computes_them() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b""), 0);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{foo}.bar"), slot(b"foo"));
        assert_eq!(tag(b"a{}b{c}"), b"a{}b{c}");
        assert_eq!(tag(b"a{{b}}"), b"{b");
        assert_eq!(tag(b"a{b"), b"a{b");
    }
}
