//! Something that reads what others wrote.

/// Reads inputs, one at a time. A panic, in whatever thread, is a failure.
pub trait Target {
    /// Its name, and that of its folder in the corpus.
    fn name(&self) -> &'static str;

    /// Pieces that inputs of this kind are made of, to insert.
    fn tokens(&self) -> &'static [&'static str];

    /// The bytes that it may allocate at once for an input of this length.
    fn most_memory(&self, length: usize) -> usize;

    /// Reads one input. Panics if what it does with it is wrong.
    fn read(&mut self, input: &[u8]);

    /// How many inputs it can read at once: more than one where each mostly waits.
    fn at_once(&self) -> usize {
        1
    }

    /// Reads at most [`Target::at_once`] inputs.
    fn read_all(&mut self, inputs: &[Vec<u8>]) {
        inputs.iter().for_each(|input| self.read(input));
    }
}
