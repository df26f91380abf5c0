//! What can happen on the way.

use std::time::Duration;

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server: commands.
    ToServer,
    /// From the server to the client: replies and pushes.
    ToClient,
}

/// What happens to all that goes one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// It is delivered.
    #[default]
    Pass,
    /// It is delivered this much later.
    Delay(Duration),
    /// It is delivered later, each command or reply by another time, up to this one. The order stays.
    Jitter(Duration),
    /// It is kept until there is another rule, the end of the connection included: a network that is interrupted and
    /// comes back.
    Stall,
    /// It is delivered byte by byte, with this time between two.
    Trickle(Duration),
    /// So many bytes are delivered; at the next one the connection is cut. Counted from when the rule is set.
    ///
    /// To the server, 0 is a cut before the request. To the client, 0 is a cut after the request, when it has been
    /// executed; more is one inside of the reply.
    CutAfter(usize),
    /// At each command or reply the connection is cut instead, with a probability of so many in a hundred.
    CutSometimes(u8),
    /// It is lost, the end of the connection included, and so is all that follows on the same connection, whatever the
    /// rules are by then: each side believes that there is another.
    Swallow,
    /// Messages of channels, and watches that fire, are lost; everything else is delivered.
    DropPushes,
}

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server does not see the command. It is cut at once: replies to earlier ones may be lost.
    BeforeRequest,
    /// The server has executed the command, and the client sees nothing of the reply. With Redis it is told from replies
    /// to other commands by counting, which fails where one command has several (a SUBSCRIBE to several channels).
    AfterRequest,
    /// The client sees so many bytes of the reply.
    InReply(usize),
}
