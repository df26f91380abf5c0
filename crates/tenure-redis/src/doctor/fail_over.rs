//! Whether this client reaches the servers that may take over. Behind NAT, an address that is not mapped shows only then.

use tenure_core::Finding;

use crate::store::Redis;
use crate::transport::Failure;

const CHECK: &str = "fail-over";

/// `None` if there are no such servers.
pub(super) async fn fail_over(redis: &Redis) -> Option<Finding> {
    let tried = match redis.transport.reach_replicas().await {
        Ok(tried) => tried,
        Err(failure @ Failure::Refused(_)) => {
            let advice = "allow SENTINEL REPLICAS to have it checked, or check it by hand";
            return Some(Finding::unknown(CHECK, format!("not checked: {failure}"), advice));
        }
        Err(failure) => {
            let what = format!("the replicas are not known: {failure}");
            return Some(Finding::warning(CHECK, what, "run the check again"));
        }
    };
    let failed: Vec<String> =
        tried.iter().filter_map(|tried| Some(tried.as_ref().err()?.to_string())).collect();
    match (tried.len(), failed.len()) {
        (0, _) => None,
        (all, 0) => Some(Finding::ok(CHECK, format!("replicas that this client reaches: {all} of {all}"))),
        (all, some) => Some(Finding::warning(
            CHECK,
            format!("{some} of {all} replicas cannot be reached from here: {}", failed.join("; ")),
            "start them, or map their addresses (nat): this client cannot follow a fail-over to them",
        )),
    }
}
