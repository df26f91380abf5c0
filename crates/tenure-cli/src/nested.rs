//! Nested commands: reads the holds of the tenure processes around this one, so that none of them waits for itself.

use std::future::pending;
use std::time::Duration;

use tenure::{Client, Error, Family, HoldId, Holder, Result};

use tokio::time::sleep;

use crate::format::{location, printable};

/// Pause between attempts while the store does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The holds that a command runs under, outermost first, separated by spaces: the id of each, and also `TOKEN@NAME` if
/// it has a token, since one token may be used for several names.
pub(crate) const HOLDS: &str = "TENURE_HOLDS";

fn outer_holds() -> String {
    std::env::var(HOLDS).unwrap_or_default()
}

/// Returns [`HOLDS`] for a command that this process starts under the hold `own`.
pub(crate) fn holds_with(own: HoldId, name: &str, token: Option<&str>) -> String {
    let own = match token {
        Some(token) => format!("{own} {}", token_entry(token, name)),
        None => own.to_string(),
    };
    format!("{} {own}", outer_holds()).trim_start().to_owned()
}

fn token_entry(token: &str, name: &str) -> String {
    format!("{}@{}", encoded(token), encoded(name))
}

/// Percent-encodes the separators and all that is not printable ASCII.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%' && byte != b'@';
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Whether a holder of this name is one of the outer holds.
fn is_among(outer: &str, holder: &str, name: &str) -> bool {
    let token = token_entry(holder, name);
    outer.split(' ').any(|hold| hold == holder || hold == token)
}

/// Refuses to wait for a name that an outer tenure holds: it waits for this one to end, so neither would go on.
pub(crate) async fn refuse_self_wait(client: &Client, name: &str, permits: u32) -> Result<()> {
    // Ignore errors here: the wait that follows reports what is wrong with the store.
    check_outer_holds(client, name, permits).await.unwrap_or(Ok(()))
}

/// Does what [`refuse_self_wait`] does while the store does not answer yet: retries, and returns only to refuse.
pub(crate) async fn refuse_self_wait_later(client: &Client, name: &str, permits: u32) -> Error {
    loop {
        match check_outer_holds(client, name, permits).await {
            Ok(Err(refusal)) => return refusal,
            Ok(Ok(())) => return pending().await,
            Err(_) => sleep(RETRY_INTERVAL).await,
        }
    }
}

/// Returns the refusal as the inner result; the outer one is an error of the store.
async fn check_outer_holds(client: &Client, name: &str, permits: u32) -> Result<Result<()>> {
    let outer = outer_holds();
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
    let (name, location) = (printable(name), location(first));
    Ok(Err(Error::Config(format!(
        "{name} is held by the outer tenure that runs this command ({location}): waiting for it here would never end"
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
            assert_eq!(token_entry(token, "order"), word);
            let outer = format!("6e1f:3 {word}");
            assert!(is_among(&outer, token, "order") && is_among(&outer, "6e1f:3", "order"));
            assert!(!is_among(&outer, token, "stock"), "another name is held by somebody else");
        }
        assert!(!is_among("6e1f:3 a%20b@order", "a", "order"));
    }
}
