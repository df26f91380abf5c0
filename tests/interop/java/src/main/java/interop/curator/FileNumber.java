package interop.curator;

import interop.Loops;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A number in a file. Between reading and writing there is time enough for somebody else to be noticed. */
record FileNumber(Path file) implements Loops.Number {
    @Override
    public String get() throws IOException, InterruptedException {
        String before = Files.exists(file) ? Files.readString(file) : null;
        Thread.sleep(1);
        return before;
    }

    @Override
    public void set(String value) throws IOException {
        Files.writeString(file, value);
    }
}
