//! Faults that the proxy can inject.

use std::time::Duration;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server: commands.
    ToServer,
    /// From the server to the client: replies and pushes.
    ToClient,
}

/// What happens to the data of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Delivered.
    #[default]
    Pass,
    /// Delivered this much later.
    Delay(Duration),
    /// Each command or reply is delivered after a random delay, up to this one. The order stays.
    Jitter(Duration),
    /// Buffered until the rule changes, including the end of the connection: an interrupted network that comes back.
    Stall,
    /// Delivered byte by byte, with this pause between two.
    Trickle(Duration),
    /// Delivers this many bytes, counted from when the rule is set, and cuts the connection at the next one.
    ///
    /// To the server, 0 is a cut before the request. To the client, 0 is a cut after the request, when it has been
    /// executed; more is one inside of the reply.
    CutAfter(usize),
    /// Cuts the connection at a command or reply, with this probability in percent.
    CutSometimes(u8),
    /// Discarded, including the end of the connection, and so is all that follows on the same connection, whatever the
    /// rules are by then: each side believes that the other is connected.
    Swallow,
    /// Drops pub/sub messages and watch events, and delivers everything else.
    DropPushes,
}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server does not receive the command. The cut is immediate: replies to earlier commands may be lost.
    BeforeRequest,
    /// The server executes the command, and the client receives nothing of the reply. On Redis replies are matched by
    /// counting, which fails for a command with several replies (a SUBSCRIBE to several channels).
    AfterRequest,
    /// The client receives this many bytes of the reply.
    InReply(usize),
}
