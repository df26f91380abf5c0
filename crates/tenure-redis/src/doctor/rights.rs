//! ErrorContext this user may do. A script asks the server about each command on each key and channel of a lock, so that the
//! missing permission can be named. It changes nothing, and needs no admin permission.

use tenure_core::{ClientId, Finding, HoldId, Name};

use super::{Node, Stuck, concluded, number, trial};
use crate::inspect::escape;
use crate::keys::Keys;
use crate::options::Layout;
use crate::scripts;
use crate::transport::Value;

const CHECK: &str = "rights";
const ASK: &str = include_str!("../../scripts/rights.lua");

pub(super) async fn rights(node: &Node<'_>) -> Vec<Finding> {
    let user = user(node).await;
    match ask_all(node).await {
        Ok(Some(missing)) => missing.findings(&user, &node.redis.prefix),
        Ok(None) => vec![Finding::unknown(
            CHECK,
            "this server cannot tell what a user may do (Redis 7.0 can)",
            "see below whether the trial lock could be acquired",
        )],
        Err(Stuck::Refused(_, message)) => vec![Finding::error(
            CHECK,
            format!("the user {user} may not run scripts, which every operation needs: {message}"),
            format!(
                "ACL SETUSER {user} +eval +evalsha; then run the check again to see what else is missing"
            ),
        )],
        Err(stuck) => vec![concluded(CHECK, Err(stuck))],
    }
}

async fn user(node: &Node<'_>) -> String {
    let reply = node.ask(&["ACL", "WHOAMI"]).await;
    reply.ok().and_then(|name| name.text().map(str::to_owned)).unwrap_or_else(|| "USER".to_owned())
}

/// The missing permissions; `None` if the server cannot tell.
async fn ask_all(node: &Node<'_>) -> Result<Option<Missing>, Stuck> {
    let name = Name::new(trial::NAME).expect("a good name");
    let keys = Keys::new(&node.redis.prefix, &name);
    let id = HoldId { client: ClientId::new(), n: 1 };

    let publish = node.redis.transport.publish_command();
    let (subscribe, unsubscribe) =
        if publish == "SPUBLISH" { ("SSUBSCRIBE", "SUNSUBSCRIBE") } else { ("SUBSCRIBE", "UNSUBSCRIBE") };
    // A command without keys is allowed or not, whatever key is passed.
    let mut plain = vec!["SCAN", unsubscribe];
    if node.facts().is_ok_and(|facts| number(facts, "connected_slaves") > 0) {
        plain.push("WAIT");
    }
    let mut commands: Vec<&str> = vec!["EVAL", "EVALSHA"];
    let layout = node.redis.layout;
    commands.extend(scripts::commands(layout).into_iter().filter(|c| *c != "TIME"));
    let (all, channels) = match layout {
        Layout::Redisson => (keys.all(id), keys.channels(id)),
        Layout::Plain => (keys.plain(), vec![keys.plain_channel()]),
    };

    let Some(on_keys) = ask(node, &commands, &all).await? else { return Ok(None) };
    let Some(on_channels) = ask(node, &[publish, subscribe], &channels).await? else { return Ok(None) };
    let Some(alone) = ask(node, &["TIME"], &[String::new()]).await? else { return Ok(None) };
    let Some(useful) = ask(node, &plain, &[String::new()]).await? else { return Ok(None) };
    Ok(Some(Missing { on_keys, on_channels, alone, useful }))
}

async fn ask(node: &Node<'_>, commands: &[&str], on: &[String]) -> Result<Option<Grid>, Stuck> {
    let count = commands.len().to_string();
    let mut words = vec!["EVAL", ASK, "0", &count];
    words.extend(commands);
    words.extend(on.iter().map(String::as_str));
    let reply = node.ask(&words).await?;
    let Value::Array(rows) = reply else { return Ok(None) };
    let rows = rows.iter().map(|row| row.bytes().unwrap_or_default().to_vec());
    Ok(Some(Grid {
        commands: commands.iter().map(|c| c.to_lowercase()).collect(),
        on: on.to_vec(),
        rows: rows.collect(),
    }))
}

/// Commands, the keys or channels they are used on, and whether that is allowed.
#[derive(Debug)]
struct Grid {
    commands: Vec<String>,
    on: Vec<String>,
    rows: Vec<Vec<u8>>,
}

impl Grid {
    fn may(&self, command: usize, on: usize) -> bool {
        self.rows.get(command).and_then(|row| row.get(on)) == Some(&b'1')
    }

    /// Whether nothing at all is allowed: missing commands cannot be told from missing patterns then.
    fn nothing(&self) -> bool {
        !self.rows.iter().flatten().any(|b| *b == b'1')
    }

    /// Commands that are allowed on no key or channel.
    fn commands(&self) -> Vec<&str> {
        let nowhere = |c: &usize| !(0..self.on.len()).any(|k| self.may(*c, k));
        (0..self.commands.len()).filter(nowhere).map(|c| self.commands[c].as_str()).collect()
    }

    /// Keys or channels on which a command is forbidden that is allowed on others.
    fn places(&self) -> Vec<&str> {
        let somewhere: Vec<usize> =
            (0..self.commands.len()).filter(|c| (0..self.on.len()).any(|k| self.may(*c, k))).collect();
        let lacks = |k: &usize| somewhere.iter().any(|c| !self.may(*c, *k));
        (0..self.on.len()).filter(lacks).map(|k| self.on[k].as_str()).collect()
    }
}

#[derive(Debug)]
struct Missing {
    on_keys: Grid,
    on_channels: Grid,
    /// Required commands that take no key.
    alone: Grid,
    /// Not required for locks.
    useful: Grid,
}

impl Missing {
    fn findings(&self, user: &str, prefix: &str) -> Vec<Finding> {
        let (keys, channels) = (keys_word(prefix), channels_word(prefix));
        let allow = |words: &str| format!("ACL SETUSER {user} {words}");
        let mut found = Vec::new();
        let mut error = |what: String, words: &str| {
            found.push(Finding::error(CHECK, format!("the user {user} may {what}"), allow(words)));
        };
        let mut commands = self.alone.commands();
        if self.on_keys.nothing() {
            let words = format!("{keys} {}", plus(&self.on_keys.commands()));
            error("not access any key of a lock".to_owned(), &words);
        } else {
            commands.extend(self.on_keys.commands());
            let places = self.on_keys.places();
            if !places.is_empty() {
                error(format!("not read and write some keys of locks: {}", some(&places)), &keys);
            }
        }
        if !commands.is_empty() {
            error(format!("not run {}, which locks need", commands.join(", ")), &plus(&commands));
        }

        let mut warning = |what: String, words: &str| {
            found.push(Finding::warning(CHECK, format!("the user {user} may {what}"), allow(words)));
        };
        let mut lacking = self.useful.commands();
        if self.on_channels.nothing() {
            let words = format!("{channels} {}", plus(&self.on_channels.commands()));
            warning(
                "not use any channel: waiters are not notified of a release and have to poll".to_owned(),
                &words,
            );
        } else {
            lacking.extend(self.on_channels.commands());
            let places = self.on_channels.places();
            if !places.is_empty() {
                warning(format!("not use some channels of locks: {}", some(&places)), &channels);
            }
        }
        for command in lacking {
            let so = match command {
                "publish" | "spublish" => "waiters elsewhere are not notified of a release by this client",
                "subscribe" | "ssubscribe" => {
                    "waiters of this client are not notified, and poll four times a second"
                }
                "scan" => "names in use cannot be listed (tenure ls)",
                "wait" => "grants cannot wait for replicas (durability)",
                _ => "unused channels stay subscribed",
            };
            warning(format!("not run {command}: {so}"), &format!("+{command}"));
        }
        if found.is_empty() {
            found.push(Finding::ok(CHECK, format!("the user {user} has all permissions that locks need")));
        }
        found
    }
}

fn plus(commands: &[&str]) -> String {
    commands.iter().map(|c| format!("+{c}")).collect::<Vec<_>>().join(" ")
}

/// Lists the first ones, if there are many.
fn some(places: &[&str]) -> String {
    match places {
        [a, b, rest @ ..] if rest.len() > 1 => format!("{a}, {b} and {} more", rest.len()),
        few => few.join(", "),
    }
}

/// The ACL pattern for the keys of all names with this prefix, which some keys have in the middle.
fn keys_word(prefix: &str) -> String {
    if prefix.is_empty() { "~*".to_owned() } else { format!("~*{}*", escape(prefix)) }
}

fn channels_word(prefix: &str) -> String {
    if prefix.is_empty() { "&*".to_owned() } else { format!("&*{}*", escape(prefix)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(commands: &[&str], on: &[&str], rows: &[&str]) -> Grid {
        let owned = |all: &[&str]| all.iter().map(|t| (*t).to_owned()).collect();
        Grid {
            commands: owned(commands),
            on: owned(on),
            rows: rows.iter().map(|r| r.as_bytes().to_vec()).collect(),
        }
    }

    #[test]
    fn a_missing_command_is_told_from_a_missing_key() {
        let command = grid(&["get", "set"], &["a", "b"], &["11", "00"]);
        assert_eq!((command.commands(), command.places()), (vec!["set"], vec![]));
        let key = grid(&["get", "set"], &["a", "b"], &["10", "10"]);
        assert_eq!((key.commands(), key.places()), (vec![], vec!["b"]));
        let both = grid(&["get", "set", "del"], &["a", "b"], &["10", "00", "10"]);
        assert_eq!((both.commands(), both.places()), (vec!["set"], vec!["b"]));
        let read_only = grid(&["get", "set"], &["a", "b"], &["11", "10"]);
        assert_eq!((read_only.commands(), read_only.places()), (vec![], vec!["b"]));
        assert!(grid(&["get"], &["a"], &["0"]).nothing() && !command.nothing());
    }

    #[test]
    fn the_words_that_allow_it_fit_the_prefix() {
        assert_eq!((keys_word("").as_str(), channels_word("app:").as_str()), ("~*", "&*app:*"));
        assert_eq!(keys_word("a*b"), "~*a\\*b*");
        assert_eq!(some(&["a", "b", "c", "d"]), "a, b and 2 more");
        assert_eq!(some(&["a", "b", "c"]), "a, b, c");
    }
}
