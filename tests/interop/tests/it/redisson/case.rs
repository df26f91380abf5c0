//! What a trial does.

pub(crate) use interop::trials::Way;

use crate::redisson::stage::Stage;

pub(crate) type Case = interop::trials::Case<Stage>;
