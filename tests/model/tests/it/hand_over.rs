//! What breaks without each rule of a local hand-over.

use model::{Case, Rule};

use crate::shows;

#[test]
fn the_guard_before_releases_what_it_passed_on() {
    shows(&Case::OF_A_HAND_OVER, Rule::OneRight);
}

#[test]
fn an_answer_to_the_owner_before_lets_it_in() {
    shows(&Case::OF_A_HAND_OVER, Rule::NoOpenEntry);
}

#[test]
fn a_forgotten_hold_is_passed_on() {
    shows(&Case::OF_A_HAND_OVER, Rule::NoSuspicion);
}

#[test]
fn validity_begins_anew_without_the_store() {
    shows(&Case::OF_A_HAND_OVER, Rule::FromLastProof);
}

#[test]
fn the_guard_before_learns_that_the_hold_is_gone() {
    shows(&Case::OF_A_HAND_OVER, Rule::CurrentGuard);
}

#[test]
fn somebody_outside_releases_what_was_passed_on() {
    shows(&Case::OF_A_HAND_OVER, Rule::NotNamed);
}

#[test]
fn the_owner_before_enters_again() {
    shows(&Case::OF_A_HAND_OVER, Rule::LeavesTable);
}

#[test]
fn an_inner_guard_stays_inside() {
    shows(&Case::OF_A_HAND_OVER, Rule::OnlyOne);
}

#[test]
fn the_next_guard_gets_less_than_it_asked_for() {
    shows(&Case::OF_A_HAND_OVER, Rule::EnoughLeft);
}

#[test]
fn a_fence_of_the_next_range_is_given() {
    shows(&Case::OF_A_HAND_OVER, Rule::InsideRange);
}

#[test]
fn a_fence_that_is_not_stored_is_given_twice() {
    shows(&Case::OF_A_HAND_OVER, Rule::RangeStored);
}

#[test]
fn a_client_sleeps_while_the_name_is_free() {
    shows(&Case::OF_A_HAND_OVER, Rule::Publishes);
}

#[test]
fn other_clients_are_passed_over_without_end() {
    shows(&Case::OF_A_HAND_OVER, Rule::Turns);
}

#[test]
fn the_claim_of_a_waiter_that_was_served_stays() {
    shows(&Case::OF_A_HAND_OVER, Rule::WaiterUndone);
}
