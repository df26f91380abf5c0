package interop.curator;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** How often holders were asked to give way. Known to all threads: whoever waits or holds may be asked. */
final class Revocations {
    private final Map<String, Semaphore> calls = new ConcurrentHashMap<>();

    private Semaphore of(String lock) {
        return calls.computeIfAbsent(lock, key -> new Semaphore(0));
    }

    /** From its next acquisition on. */
    void listen(String lock, InterProcessMutex mutex) {
        mutex.makeRevocable(asked -> of(lock).release());
    }

    /** Whether there is one that nobody has asked about yet, after so many milliseconds at most. */
    boolean next(String lock, long wait) throws InterruptedException {
        return of(lock).tryAcquire(wait, TimeUnit.MILLISECONDS);
    }
}
