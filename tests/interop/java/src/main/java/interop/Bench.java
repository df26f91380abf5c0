package interop;

import interop.Loops.Gate;
import interop.Loops.Gates;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** What the benchmarks ask of every library, in the same words: tests/bench/src/client says what they mean. */
public final class Bench {
    /** A wait's bucket is {@code round(ln µs × 50)}. */
    private static final int BUCKETS = 50;

    private static final List<Gate> HELD = new ArrayList<>();
    private static final ConcurrentLinkedQueue<String> HANDED = new ConcurrentLinkedQueue<>();

    private Bench() {}

    public static Object perform(String verb, Gates gates, Args args) throws Exception {
        return switch (verb) {
            case "turns" -> turns(gates, args);
            case "hold" -> hold(gates, args);
            case "free" -> free();
            case "wait" -> await(gates, args);
            case "waited" -> String.join(",", HANDED);
            default -> throw new IllegalArgumentException("no verb bench." + verb);
        };
    }

    /** {@code KIND NAME own|shared TASKS MILLIS HOLD PAUSE}, with hold and pause in µs. */
    private static String turns(Gates gates, Args args) throws Exception {
        String kind = args.word();
        String name = args.word();
        boolean own = args.word().equals("own");
        int tasks = (int) args.number();
        long begin = System.nanoTime();
        long end = begin + TimeUnit.MILLISECONDS.toNanos(args.number());
        long hold = args.number();
        long pause = args.number();
        List<Callable<Map<Long, Long>>> loops = new ArrayList<>();
        for (int i = 0; i < tasks; i++) {
            String key = own ? name + i : name;
            loops.add(() -> loop(gates.of(kind, key), end, hold, pause));
        }
        List<String> waits = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        try {
            for (Future<Map<Long, Long>> one : threads.invokeAll(loops)) {
                waits.add(one.get().entrySet().stream()
                        .map(e -> e.getKey() + ":" + e.getValue())
                        .collect(Collectors.joining(",")));
            }
        } finally {
            threads.shutdown();
        }
        return System.nanoTime() - begin + " " + String.join(";", waits);
    }

    /** How many waits there are in each bucket. */
    private static Map<Long, Long> loop(Gate gate, long end, long hold, long pause) throws Exception {
        Map<Long, Long> waits = new TreeMap<>();
        // At least one: on a busy machine a thread may begin when the time is over.
        do {
            long begin = System.nanoTime();
            gate.enter();
            double micros = Math.max(1, (System.nanoTime() - begin) / 1e3);
            waits.merge(Math.round(Math.log(micros) * BUCKETS), 1L, Long::sum);
            sleep(hold);
            gate.leave();
            sleep(pause);
        } while (System.nanoTime() < end);
        return waits;
    }

    /** {@code KIND NAME N} */
    private static Object hold(Gates gates, Args args) throws Exception {
        String kind = args.word();
        String name = args.word();
        long n = args.number();
        for (long i = 0; i < n; i++) {
            Gate gate = gates.of(kind, name + i);
            gate.enter();
            HELD.add(gate);
        }
        return null;
    }

    private static Object free() throws Exception {
        for (Gate gate : HELD) {
            gate.leave();
        }
        HELD.clear();
        return null;
    }

    /** {@code KIND NAME N HOLD}: so many threads begin to wait; each enters once, stays for so many µs, and leaves. */
    private static Object await(Gates gates, Args args) {
        String kind = args.word();
        String name = args.word();
        long n = args.number();
        long hold = args.number();
        HANDED.clear();
        for (long i = 0; i < n; i++) {
            Runnable waiter = () -> {
                try {
                    Gate gate = gates.of(kind, name);
                    gate.enter();
                    long granted = System.nanoTime();
                    sleep(hold);
                    HANDED.add(granted + ":" + System.nanoTime());
                    gate.leave();
                } catch (Exception wrong) {
                    throw new IllegalStateException(wrong);
                }
            };
            Thread thread = new Thread(null, waiter, "waiter " + i, 256 << 10);
            thread.setDaemon(true);
            thread.start();
        }
        return null;
    }

    private static void sleep(long micros) throws InterruptedException {
        if (micros > 0) {
            TimeUnit.MICROSECONDS.sleep(micros);
        }
    }
}
