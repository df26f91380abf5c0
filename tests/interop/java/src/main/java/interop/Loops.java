package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;

/** Locks taken over and over: a counter that must lose nothing, and a closed loop that is timed. */
public final class Loops {
    private Loops() {}

    /** Anything that lets one in (or a few), by one thread. */
    public interface Gate {
        void enter() throws Exception;

        void leave() throws Exception;
    }

    /** Where a thread gets its gate of a name. */
    public interface Gates {
        Gate of(String name) throws Exception;
    }

    /** A number that nothing protects but a gate. */
    public interface Number {
        /** Null if there is none yet. */
        String get() throws Exception;

        void set(String value) throws Exception;
    }

    /** Adds 1 to a number, {@code n} times, by reading it and writing it back. */
    public static int count(Number number, int n, Gate gate) throws Exception {
        for (int i = 0; i < n; i++) {
            gate.enter();
            String before = number.get();
            number.set(String.valueOf(before == null ? 1 : Long.parseLong(before) + 1));
            gate.leave();
        }
        return n;
    }

    /**
     * {@code NAME SECONDS TASKS own|shared [HOLD PAUSE]}: pairs of enter and leave by so many threads, each of which stays
     * inside and then away for so many milliseconds. How many there were, the longest wait in µs, and the one in the
     * middle.
     */
    public static String bench(Gates gates, Args args) throws InterruptedException {
        String name = args.word();
        long seconds = args.number();
        int tasks = (int) args.number();
        boolean shared = args.word().equals("shared");
        long hold = args.number(0);
        long pause = args.number(0);
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        List<Callable<LongStream>> loops = new ArrayList<>();
        for (int i = 0; i < tasks; i++) {
            String key = shared ? name : name + i;
            loops.add(() -> loop(gates.of(key), end, hold, pause));
        }
        LongStream waits = LongStream.empty();
        try {
            for (Future<LongStream> one : threads.invokeAll(loops)) {
                waits = LongStream.concat(waits, one.get());
            }
        } catch (ExecutionException wrong) {
            throw new IllegalStateException(wrong.getCause());
        } finally {
            threads.shutdown();
        }
        long[] all = waits.sorted().toArray();
        long longest = all[all.length - 1] / 1000;
        return all.length + " " + longest + " " + all[all.length / 2] / 1000;
    }

    /** The nanoseconds of each wait. */
    private static LongStream loop(Gate gate, long end, long hold, long pause) throws Exception {
        LongStream.Builder waits = LongStream.builder();
        // At least one: on a busy machine a thread may begin when the time is over.
        do {
            long begin = System.nanoTime();
            gate.enter();
            waits.add(System.nanoTime() - begin);
            sleep(hold);
            gate.leave();
            sleep(pause);
        } while (System.nanoTime() < end);
        return waits.build();
    }

    private static void sleep(long millis) throws InterruptedException {
        if (millis > 0) {
            Thread.sleep(millis);
        }
    }
}
