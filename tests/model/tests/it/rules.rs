//! What breaks without each rule of the library.

use model::{Case, Rule};

use crate::shows;

#[test]
fn a_late_release_frees_the_next_hold_with_its_id() {
    shows(&Case::OF_THE_LIBRARY, Rule::DeadId);
}

#[test]
fn an_undo_overtakes_its_acquire() {
    shows(&Case::OF_THE_LIBRARY, Rule::SameLane);
}

#[test]
fn an_acquire_arrives_after_its_undo() {
    shows(&Case::OF_THE_LIBRARY, Rule::UndoUntilCertain);
}

#[test]
fn a_short_reentry_ends_a_hold() {
    shows(&Case::OF_THE_LIBRARY, Rule::NeverShorten);
}

#[test]
fn a_late_answer_counts_for_too_long() {
    shows(&Case::OF_THE_LIBRARY, Rule::FromSending);
}

#[test]
fn a_slow_clock_holds_for_too_long() {
    shows(&Case::OF_THE_LIBRARY, Rule::Drift);
}

#[test]
fn a_late_release_frees_the_hold_of_another_client() {
    shows(&Case::OF_THE_LIBRARY, Rule::OwnerCheck);
}

#[test]
fn a_late_renewal_brings_a_hold_back() {
    shows(&Case::OF_THE_LIBRARY, Rule::RenewalCreatesNothing);
}

#[test]
fn a_late_answer_revives_a_lost_guard() {
    shows(&Case::OF_THE_LIBRARY, Rule::LostStaysLost);
}

#[test]
fn a_lost_hold_that_was_renewed_stays() {
    shows(&Case::OF_THE_LIBRARY, Rule::LostIsReleased);
}

#[test]
fn an_acquire_that_was_given_up_stays() {
    shows(&Case::OF_THE_LIBRARY, Rule::Undo);
}

#[test]
fn a_hold_of_a_dead_client_stays_for_ever() {
    shows(&Case::OF_THE_LIBRARY, Rule::Lease);
}

#[test]
fn a_counter_begins_anew_after_a_restart() {
    shows(&Case::OF_THE_LIBRARY, Rule::FenceFromClock);
}

#[test]
fn a_clock_gives_a_number_twice() {
    shows(&Case::OF_THE_LIBRARY, Rule::FenceAboveLast);
}

#[test]
fn a_forgotten_hold_is_believed_in() {
    shows(&Case::OF_THE_LIBRARY, Rule::Suspicion);
}

#[test]
fn a_forgotten_grant_is_believed_in() {
    shows(&Case::OF_THE_LIBRARY, Rule::SuspicionInFlight);
}
