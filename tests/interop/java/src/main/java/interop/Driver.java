package interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * A client steered line by line.
 *
 * <p>A request is {@code ID THREAD VERB ARGS…}, its answer {@code ID ok VALUE} or {@code ID error CLASS MESSAGE}, in the
 * order in which they are done. Requests of one THREAD run one after the other on one Java thread of that name, which is
 * what these libraries call an owner. The first line out is the answer to a request 0, which is to connect; the end of
 * the input ends the process.
 */
public final class Driver {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Driver() {}

    /** How the client connects. */
    public interface Connect {
        Library connect() throws Exception;
    }

    public static void serve(Connect connect) throws IOException {
        Library library = connect(connect);
        Map<String, Worker> workers = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            String[] request = Arrays.copyOfRange(words, 2, words.length);
            // Not asked of the thread itself: it is busy.
            if (request[0].equals("parked")) {
                say(words[0] + " ok " + workers.get(words[1]).isParked());
                continue;
            }
            if (request[0].equals("interrupt")) {
                workers.get(words[1]).interrupt();
                say(words[0] + " ok");
                continue;
            }
            workers.computeIfAbsent(words[1], name -> new Worker(name, library)).give(words[0], request);
        }
        // Whoever steers this has gone: what is held is left to its lease, as after a crash.
        Runtime.getRuntime().halt(0);
    }

    private static Library connect(Connect connect) {
        try {
            Library library = connect.connect();
            say("0 ok");
            return library;
        } catch (Exception wrong) {
            say("0 " + Worker.error(wrong));
            Runtime.getRuntime().halt(1);
            throw new IllegalStateException(wrong);
        }
    }

    static synchronized void say(String line) {
        OUT.print(line.replaceAll("[\r\n]+", " ") + "\n");
        OUT.flush();
    }
}
