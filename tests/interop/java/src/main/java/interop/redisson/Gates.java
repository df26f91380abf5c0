package interop.redisson;

import interop.Loops.Gate;
import interop.Loops.Number;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** What the loops go through, and what they count. */
final class Gates {
    private final RedissonClient client;

    Gates(RedissonClient client) {
        this.client = client;
    }

    /** Kind {@code permit:MAX} sets the number of permits, unless it is set. */
    Gate of(String kind, String name) {
        if (kind.startsWith("permit:")) {
            RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(name);
            semaphore.trySetPermits(Integer.parseInt(kind.substring("permit:".length())));
            return of(semaphore);
        }
        return switch (kind) {
            case "semaphore" -> of(client.getSemaphore(name));
            case "permit" -> of(client.getPermitExpirableSemaphore(name));
            case "multi" -> of(new Locks(client).all(name));
            default -> of(Locks.create(client, kind, name));
        };
    }

    Number number(String key) {
        RBucket<String> bucket = client.getBucket(key, StringCodec.INSTANCE);
        return new Number() {
            public String get() {
                return bucket.get();
            }

            public void set(String value) {
                bucket.set(value);
            }
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
}
