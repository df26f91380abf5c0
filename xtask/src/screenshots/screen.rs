//! Reads what a program sends to a terminal into cells. It knows the sequences that `tenure` sends, and refuses others.

/// A character and how it looks. The second cell of a wide character is [`REST`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) char: char,
    pub(super) look: Look,
}

pub(super) const REST: char = '\0';

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) bold: bool,
    pub(super) dim: bool,
    /// As in the sequence: 31 is red.
    pub(super) colour: Option<u8>,
}

pub(super) type Row = Vec<Cell>;

const BLANK: Cell = Cell { char: ' ', look: Look { bold: false, dim: false, colour: None } };

pub(super) fn text(row: &[Cell]) -> String {
    row.iter().map(|cell| cell.char).filter(|char| *char != REST).collect()
}

/// The cells of a text.
pub(super) fn cells(text: &str, look: Look) -> Row {
    let both = |char| [Some(char), (width(char) == 2).then_some(REST)];
    text.chars().flat_map(both).flatten().map(|char| Cell { char, look }).collect()
}

/// Columns of a character; the blocks in which all characters are wide.
pub(super) fn width(char: char) -> usize {
    match char as u32 {
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The screen after `sent`, with all of its rows.
pub(super) fn read(sent: &str, (columns, rows): (u16, u16)) -> Result<Vec<Row>, String> {
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    let mut page = vec![vec![BLANK; columns]; rows];
    let (mut x, mut y, mut look) = (0, 0, Look::default());
    let mut rest = sent;
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            '\r' => x = 0,
            '\n' => y += 1,
            '\x1b' => {
                let (sequence, after) = sequence(rest)?;
                rest = after;
                match sequence {
                    "[H" => (x, y) = (0, 0),
                    "[K" => page[y][x..].fill(BLANK),
                    "[J" => {
                        page[y][x..].fill(BLANK);
                        page[y + 1..].iter_mut().for_each(|row| row.fill(BLANK));
                    }
                    "[?1049h" | "[?1049l" => page.iter_mut().for_each(|row| row.fill(BLANK)),
                    "[?25l" | "[?25h" => {}
                    _ => look = looks(look, sequence)?,
                }
            }
            char if char.is_control() => return Err(format!("the screen has no meaning for {char:?}")),
            char => {
                let wide = cells(char.encode_utf8(&mut [0; 4]), look);
                let place = page[y].get_mut(x..x + wide.len());
                place.ok_or_else(|| format!("row {y} is too long"))?.copy_from_slice(&wide);
                x += wide.len();
            }
        }
        if y >= rows {
            return Err(format!("more than {rows} rows"));
        }
    }
    Ok(page)
}

/// Splits after the sequence at the begin of `text`.
fn sequence(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|char: char| char.is_ascii_alphabetic()).filter(|_| text.starts_with('['));
    end.map(|end| text.split_at(end + 1)).ok_or_else(|| format!("no sequence: {:.9?}", text))
}

fn looks(before: Look, sequence: &str) -> Result<Look, String> {
    let unknown = || format!("the screen has no meaning for {sequence:?}");
    let codes = sequence.strip_prefix('[').and_then(|s| s.strip_suffix('m')).ok_or_else(unknown)?;
    codes.split(';').try_fold(before, |look, code| match code.parse() {
        Ok(0) => Ok(Look::default()),
        Err(_) if code.is_empty() => Ok(Look::default()),
        Ok(1) => Ok(Look { bold: true, ..look }),
        Ok(2) => Ok(Look { dim: true, ..look }),
        Ok(colour @ 31..=33) => Ok(Look { colour: Some(colour), ..look }),
        _ => Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sent: &str) -> Vec<String> {
        let page = read(sent, (8, 3)).unwrap();
        page.iter().map(|row| text(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_drawing_replaces_the_one_before() {
        assert_eq!(
            rows("\x1b[?1049h\x1b[?25l\x1b[Hone\x1b[K\r\ntwo\x1b[K\r\nthree\x1b[J"),
            ["one", "two", "three"]
        );
        assert_eq!(rows("\x1b[Hlonger\x1b[K\r\ntwo\x1b[J\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J"), ["a", "b", ""]);
        assert_eq!(rows("before\x1b[?1049h"), ["", "", ""]);
    }

    #[test]
    fn looks_last_until_they_are_reset() {
        let page = read("\x1b[1ma\x1b[2;31mb\x1b[0mc\x1b[33md\x1b[me", (8, 1)).unwrap();
        let looks: Vec<_> = page[0][..5].iter().map(|cell| cell.look).collect();
        let plain = Look::default();
        let loud = Look { bold: true, dim: true, colour: Some(31) };
        let yellow = Look { colour: Some(33), ..plain };
        assert_eq!(looks, [Look { bold: true, ..plain }, loud, plain, yellow, plain]);
    }

    #[test]
    fn a_wide_character_has_two_cells() {
        let page = read("a锁b", (8, 1)).unwrap();
        let chars: Vec<char> = page[0][..4].iter().map(|cell| cell.char).collect();
        assert_eq!(chars, ['a', '锁', REST, 'b']);
        assert_eq!(text(&page[0]).trim_end(), "a锁b");
    }

    #[test]
    fn what_a_screen_cannot_show_is_refused() {
        for wrong in ["\x1b[5A", "\x1b[35m", "\x1bM", "\x07", "123456789", "\n\n\n", "1234567锁"] {
            assert!(read(wrong, (8, 3)).is_err(), "{wrong:?}");
        }
    }
}
