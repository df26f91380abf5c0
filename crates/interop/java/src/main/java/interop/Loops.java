package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Locks taken over and over: a counter that must lose nothing, and a closed loop that is timed. */
final class Loops {
    private final RedissonClient client;

    Loops(RedissonClient client) {
        this.client = client;
    }

    /** Anything that lets one in (or a few), by one thread. */
    private interface Gate {
        void enter() throws InterruptedException;

        void leave();
    }

    private Gate gate(String kind, String name) {
        return switch (kind) {
            case "semaphore" -> of(client.getSemaphore(name));
            case "permit" -> of(client.getPermitExpirableSemaphore(name));
            case "multi" -> of(new Locks(client).all(name));
            default -> of(Locks.create(client, kind, name));
        };
    }

    private static Gate of(RLock lock) {
        return new Gate() {
            public void enter() {
                lock.lock();
            }

            public void leave() {
                lock.unlock();
            }
        };
    }

    private static Gate of(RSemaphore semaphore) {
        return new Gate() {
            public void enter() throws InterruptedException {
                semaphore.acquire();
            }

            public void leave() {
                semaphore.release();
            }
        };
    }

    private static Gate of(RPermitExpirableSemaphore semaphore) {
        return new Gate() {
            private String id;

            public void enter() throws InterruptedException {
                // As long as a lock under the watchdog would have.
                id = semaphore.acquire(30, TimeUnit.SECONDS);
            }

            public void leave() {
                semaphore.release(id);
            }
        };
    }

    /** Adds 1 to the number under {@code key}, {@code n} times, by reading it and writing it back. */
    int count(String key, int n, String kind, String name) throws InterruptedException {
        Gate gate = gate(kind, name);
        RBucket<String> number = client.getBucket(key, StringCodec.INSTANCE);
        for (int i = 0; i < n; i++) {
            gate.enter();
            String before = number.get();
            number.set(String.valueOf(before == null ? 1 : Long.parseLong(before) + 1));
            gate.leave();
        }
        return n;
    }

    private record Done(long pairs, long longestWait) {}

    /** Pairs of enter and leave by {@code tasks} threads for {@code seconds}: how many, and the longest wait in µs. */
    String bench(String kind, String name, long seconds, int tasks, boolean shared) throws InterruptedException {
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        List<Callable<Done>> loops = new ArrayList<>();
        for (int i = 0; i < tasks; i++) {
            String key = shared ? name : name + i;
            loops.add(() -> loop(gate(kind, key), end));
        }
        long pairs = 0;
        long longest = 0;
        try {
            for (Future<Done> one : threads.invokeAll(loops)) {
                pairs += one.get().pairs();
                longest = Math.max(longest, one.get().longestWait());
            }
        } catch (ExecutionException wrong) {
            throw new IllegalStateException(wrong.getCause());
        } finally {
            threads.shutdown();
        }
        return pairs + " " + TimeUnit.NANOSECONDS.toMicros(longest);
    }

    private static Done loop(Gate gate, long end) throws InterruptedException {
        long pairs = 0;
        long longest = 0;
        for (long begin = System.nanoTime(); begin < end; begin = System.nanoTime()) {
            gate.enter();
            longest = Math.max(longest, System.nanoTime() - begin);
            gate.leave();
            pairs++;
        }
        return new Done(pairs, longest);
    }
}
