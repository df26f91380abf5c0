//! With all rules nothing breaks, in any state that there is.

use model::{Case, Rule, World, explore, scenario};

use crate::check;

fn nothing_breaks(world: &World) {
    let explored = explore(world);
    println!("{}: {explored}", world.name);
    if let Some(run) = &explored.broken {
        panic!("{}:\n{}", world.name, scenario(world, run));
    }
}

#[test]
fn on_a_bad_network() {
    nothing_breaks(&World::network());
}

#[test]
fn when_the_store_restarts() {
    nothing_breaks(&World::restart());
}

#[test]
fn when_owners_enter_again() {
    nothing_breaks(&World::reentry());
}

#[test]
fn when_holds_are_passed_on() {
    nothing_breaks(&World::hand_over());
}

#[test]
fn when_holds_are_passed_on_that_others_have_to_do_with() {
    nothing_breaks(&World::hand_over_shared());
}

#[test]
fn when_holds_are_passed_on_and_the_store_restarts() {
    nothing_breaks(&World::hand_over_restart());
}

#[test]
fn a_renewal_that_is_open_while_its_hold_is_passed_on_breaks_nothing() {
    nothing_breaks(&World::hand_over_restart().without(Rule::NoOpenRenewal));
}

#[test]
fn promises_have_the_exceptions_that_are_documented() {
    Case::EXCEPTIONS.iter().for_each(check);
}
