//! Commands inside commands: what the tenures around this one hold, so that none of them waits for itself.

use std::future::pending;
use std::time::Duration;

use tenure::{Client, Error, Family, HoldId, Holder, Result};

use tokio::time::sleep;

use crate::people::{place, printable};

/// How long a store that does not answer is left alone.
const LOOK: Duration = Duration::from_secs(1);

/// The holds that a command runs under, outermost first, with spaces between them: the id of each, and `TOKEN@NAME` for
/// one under a token, which other names may be held under as well.
pub(crate) const HOLDS: &str = "TENURE_HOLDS";

fn holds() -> String {
    std::env::var(HOLDS).unwrap_or_default()
}

/// What a command runs under that this process starts while it has one more.
pub(crate) fn holds_with(own: HoldId, name: &str, token: Option<&str>) -> String {
    let own = match token {
        Some(token) => format!("{own} {}", under_token(token, name)),
        None => own.to_string(),
    };
    format!("{} {own}", holds()).trim_start().to_owned()
}

fn under_token(token: &str, name: &str) -> String {
    format!("{}@{}", encoded(token), encoded(name))
}

/// With a percent sign for what would end a word, or a part of it.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%' && byte != b'@';
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Whether a holder of this name is one of these.
fn is_among(outer: &str, holder: &str, name: &str) -> bool {
    let token = under_token(holder, name);
    outer.split(' ').any(|hold| hold == holder || hold == token)
}

/// Refuses to wait for a name that a tenure around this one holds: that one waits for this one to end.
pub(crate) async fn refuse_own(client: &Client, name: &str, permits: u32) -> Result<()> {
    // A look that fails is no reason to give up: waiting finds out what is wrong with the store.
    look(client, name, permits).await.unwrap_or(Ok(()))
}

/// The same while a store is waited for that does not answer yet. Returns only to refuse.
pub(crate) async fn refused_later(client: &Client, name: &str, permits: u32) -> Error {
    loop {
        match look(client, name, permits).await {
            Ok(Err(refusal)) => return refusal,
            Ok(Ok(())) => return pending().await,
            Err(_) => sleep(LOOK).await,
        }
    }
}

/// What there is to say against waiting, where the store can be asked.
async fn look(client: &Client, name: &str, permits: u32) -> Result<Result<()>> {
    let outer = holds();
    if outer.is_empty() {
        return Ok(Ok(()));
    }
    let Some(snapshot) = client.show(name).await? else { return Ok(Ok(())) };
    let is_outer = |holder: &&Holder| is_among(&outer, &holder.id, name);
    let ours: Vec<&Holder> = snapshot.holders.iter().filter(is_outer).collect();
    let Some(first) = ours.first() else { return Ok(Ok(())) };
    if snapshot.family == Family::Permit {
        let taken: u32 = ours.iter().map(|holder| holder.holds).sum();
        if snapshot.size.is_some_and(|size| size.saturating_sub(taken) >= permits) {
            return Ok(Ok(()));
        }
    }
    let (name, place) = (printable(name), place(first));
    Ok(Err(Error::Config(format!(
        "{name} is held by the tenure that runs this command ({place}), which waits for it to end: waiting for {name} \
         here would never end"
    ))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_whatever_is_in_it() {
        for (token, word) in [
            ("request-7", "request-7@order"),
            ("a b", "a%20b@order"),
            ("50%20", "50%2520@order"),
            ("me@home", "me%40home@order"),
            ("ö\n", "%C3%B6%0A@order"),
        ] {
            assert_eq!(under_token(token, "order"), word);
            let outer = format!("6e1f:3 {word}");
            assert!(is_among(&outer, token, "order") && is_among(&outer, "6e1f:3", "order"));
            assert!(!is_among(&outer, token, "stock"), "another name is held by somebody else");
        }
        assert!(!is_among("6e1f:3 a%20b@order", "a", "order"));
    }
}
