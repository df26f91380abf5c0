//! The cases of this peer.

pub(crate) use interop::trials::Direction;

use crate::redisson::fixture::Fixture;

pub(crate) type Case = interop::trials::Case<Fixture>;
