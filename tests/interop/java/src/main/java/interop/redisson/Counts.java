package interop.redisson;

import interop.Args;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Semaphores and latches. */
final class Counts {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final RedissonClient client;

    Counts(RedissonClient client) {
        this.client = client;
    }

    /** {@code sem.VERB NAME [N [WAIT]]} */
    Object semaphore(String verb, Args args) throws InterruptedException {
        RSemaphore semaphore = client.getSemaphore(args.word());
        switch (verb) {
            case "set" -> {
                return semaphore.trySetPermits((int) args.number());
            }
            case "acquire" -> {
                semaphore.acquire((int) args.number());
                return null;
            }
            case "try" -> {
                int n = (int) args.number();
                long wait = args.number(0);
                return wait > 0 ? semaphore.tryAcquire(n, wait, MS) : semaphore.tryAcquire(n);
            }
            case "release" -> {
                semaphore.release((int) args.number());
                return null;
            }
            case "add" -> {
                semaphore.addPermits((int) args.number());
                return null;
            }
            case "drain" -> {
                return semaphore.drainPermits();
            }
            case "available" -> {
                return semaphore.availablePermits();
            }
            case "delete" -> {
                return semaphore.delete();
            }
            default -> throw new IllegalArgumentException("no verb sem." + verb);
        }
    }

    /** {@code permit.VERB NAME …}; ids are words, several of them separated by commas, {@code none} when there is none. */
    Object permits(String verb, Args args) throws InterruptedException {
        RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(args.word());
        switch (verb) {
            case "set" -> {
                return semaphore.trySetPermits((int) args.number());
            }
            case "acquire" -> {
                long lease = args.number(0);
                return lease > 0 ? semaphore.acquire(lease, MS) : semaphore.acquire();
            }
            case "try" -> {
                String id = semaphore.tryAcquire(args.number(), args.number(-1), MS);
                return id == null ? "none" : id;
            }
            case "try-many" -> {
                var ids = semaphore.tryAcquire((int) args.number(), args.number(), args.number(-1), MS);
                return ids.isEmpty() ? "none" : String.join(",", ids);
            }
            case "release" -> {
                semaphore.release(Arrays.asList(args.word().split(",")));
                return null;
            }
            case "try-release" -> {
                return semaphore.tryRelease(args.word());
            }
            case "available" -> {
                return semaphore.availablePermits();
            }
            case "acquired" -> {
                return semaphore.acquiredPermits();
            }
            case "size" -> {
                return semaphore.getPermits();
            }
            case "resize" -> {
                semaphore.setPermits((int) args.number());
                return null;
            }
            case "extend" -> {
                return semaphore.updateLeaseTime(args.word(), args.number(), MS);
            }
            case "lease" -> {
                return Newer.call(semaphore, "getLeaseTime", args.word());
            }
            default -> throw new IllegalArgumentException("no verb permit." + verb);
        }
    }

    /** {@code latch.VERB NAME [N]} */
    Object latch(String verb, Args args) throws InterruptedException {
        RCountDownLatch latch = client.getCountDownLatch(args.word());
        switch (verb) {
            case "set" -> {
                return latch.trySetCount(args.number());
            }
            case "down" -> {
                latch.countDown();
                return null;
            }
            case "await" -> {
                long wait = args.number(0);
                if (wait > 0) {
                    return latch.await(wait, MS);
                }
                latch.await();
                return true;
            }
            case "count" -> {
                return latch.getCount();
            }
            case "delete" -> {
                return latch.delete();
            }
            default -> throw new IllegalArgumentException("no verb latch." + verb);
        }
    }
}
