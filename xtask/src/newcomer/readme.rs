//! What the README tells a newcomer to type: the lines with `cargo add`, and the program below them.

/// As they stand in the README.
#[derive(Debug, PartialEq)]
pub(super) struct Lines {
    /// The words after each `cargo add`.
    pub(super) adds: Vec<Vec<String>>,
    /// The first block of Rust after the first `cargo add`.
    pub(super) program: String,
    /// The name of the first lock in it.
    pub(super) lock: String,
}

impl Lines {
    /// # Errors
    /// What is missing: a newcomer could not do it either.
    pub(super) fn of(readme: &str) -> Result<Self, String> {
        let lines = || readme.lines().skip_while(|line| added(line).is_none());
        let is_rust = |line: &str| line.trim_start().starts_with("```rust");
        let adds: Vec<_> = lines().take_while(|line| !is_rust(line)).filter_map(added).collect();
        if !adds.iter().flatten().any(|word| word == "tenure") {
            return Err("README.md has no line `cargo add tenure …`".into());
        }
        let block = lines().skip_while(|line| !is_rust(line)).skip(1);
        let block: Vec<&str> = block.take_while(|line| !line.trim_start().starts_with("```")).collect();
        let program = block.join("\n") + "\n";
        if !program.contains("fn main()") {
            return Err(
                "the first Rust lines of README.md after `cargo add` are no program: no main()".into()
            );
        }
        let lock = program.split_once(".lock(\"").and_then(|(_, rest)| rest.split_once('"'));
        let lock = lock.ok_or("the first program of README.md locks no name")?.0.to_owned();
        Ok(Self { adds, program, lock })
    }

    /// Whether tenure is added with this feature.
    pub(super) fn has_feature(&self, name: &str) -> bool {
        let tenure = self.adds.iter().filter(|words| words.iter().any(|word| word == "tenure"));
        tenure.flatten().any(|word| word.split([',', '=']).any(|part| part == name))
    }
}

/// The words of a line after `cargo add`, without a prompt or a comment.
fn added(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ");
    let words = line.strip_prefix("cargo add ")?.split_whitespace().take_while(|word| !word.starts_with('#'));
    Some(words.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
# Tenure
```rust
not this one
```
    cargo add tenure --features redis
    $ cargo add tokio --features=macros,rt  # a runtime
and
```rust,no_run
fn main() { client.lock(\"orders/42\") }
```
```rust
nor this one
```
";

    #[test]
    fn commands_and_program_are_found() {
        let found = Lines::of(README).unwrap();
        let words = found.adds.iter().map(|words| words.join(" ")).collect::<Vec<_>>();
        assert_eq!(words, ["tenure --features redis", "tokio --features=macros,rt"]);
        assert_eq!(found.program, "fn main() { client.lock(\"orders/42\") }\n");
        assert_eq!(found.lock, "orders/42");
        assert!(found.has_feature("redis") && !found.has_feature("macros"));
    }

    #[test]
    fn what_is_missing_is_said() {
        for (part, says) in
            [("tenure --features", "cargo add tenure"), ("main()", "no main"), (".lock(", "locks no name")]
        {
            let wrong = Lines::of(&README.replace(part, "x")).unwrap_err();
            assert!(wrong.contains(says), "{wrong}");
        }
    }
}
