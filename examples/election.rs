//! An election: one leads, the others stand by, and everybody can see who it is.
//!
//! Prints:
//!     Some("first") leads, term …
//!     it ran 3 jobs and resigns
//!     Some("second") leads, term …

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let mut seen = client.election("examples/cron").observe()?;

    let leadership = client.election("examples/cron").note("first").campaign().await?;
    let leader = seen.next().await?.expect("there is one");
    println!("{:?} leads, term {}", leader.note, leader.term);
    assert_eq!((leader.note.as_deref(), Some(leader.term)), (Some("first"), leadership.fence()));

    let second = client.election("examples/cron").note("second");
    let standby = tokio::spawn(async move { second.campaign().await });

    // What a leader does, it does as long as it leads.
    let jobs = leadership.while_held(async { 3 }).await?;
    println!("it ran {jobs} jobs and resigns");
    leadership.release().await?;

    let leadership = standby.await.expect("no panic")?;
    let next = loop {
        match seen.next().await? {
            Some(next) if next.term > leader.term => break next,
            _ => {} // nobody for a moment
        }
    };
    println!("{:?} leads, term {}", next.note, next.term);
    assert_eq!((next.note.as_deref(), Some(next.term)), (Some("second"), leadership.fence()));
    leadership.release().await?;
    client.close().await
}
