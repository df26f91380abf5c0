package interop.redisson;

import interop.Args;
import interop.Bench;
import interop.Library;
import interop.Loops;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;

/** What can be asked for. Times are in milliseconds; a lease of 0 or none means the watchdog. */
final class Verbs implements Library.Owner {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final RedissonClient client;
    private final Locks locks;
    private final Counts counts;
    private final Gates gates;

    Verbs(RedissonClient client) {
        this.client = client;
        locks = new Locks(client);
        counts = new Counts(client);
        gates = new Gates(client);
    }

    @Override
    public Object perform(Args args) throws Exception {
        String verb = args.word();
        int dot = verb.indexOf('.');
        switch (dot < 0 ? "" : verb.substring(0, dot)) {
            case "sem":
                return counts.semaphore(verb.substring(dot + 1), args);
            case "permit":
                return counts.permits(verb.substring(dot + 1), args);
            case "latch":
                return counts.latch(verb.substring(dot + 1), args);
            case "multi":
                return lock(verb.substring(dot + 1), locks.all(args.word()), args);
            case "bench":
                return Bench.perform(verb.substring(dot + 1), gates::of, args);
            case "fenced":
                return fenced(verb.substring(dot + 1), (RFencedLock) locks.of("fenced", args.word()), args);
            default:
        }
        return switch (verb) {
            case "owner" -> client.getId() + ":" + Thread.currentThread().getId();
            case "echo" -> args.rest();
            case "count" ->
                Loops.count(gates.number(args.word()), (int) args.number(), gates.of(args.word(), args.word()));
            default -> lock(verb, locks.of(args.word(), args.word()), args);
        };
    }

    /** {@code VERB KIND NAME [TIMES]} */
    private static Object lock(String verb, RLock lock, Args args) throws InterruptedException {
        switch (verb) {
            case "lock" -> {
                long lease = args.number(0);
                if (lease > 0) {
                    lock.lock(lease, MS);
                } else {
                    lock.lock();
                }
                return null;
            }
            case "try" -> {
                long wait = args.number(0);
                long lease = args.number(0);
                if (lease > 0) {
                    return lock.tryLock(wait, lease, MS);
                }
                return wait > 0 ? lock.tryLock(wait, MS) : lock.tryLock();
            }
            case "unlock" -> {
                lock.unlock();
                return null;
            }
            case "force-unlock" -> {
                return lock.forceUnlock();
            }
            case "is-locked" -> {
                return lock.isLocked();
            }
            case "is-held" -> {
                return lock.isHeldByCurrentThread();
            }
            case "holds" -> {
                return lock.getHoldCount();
            }
            case "ttl" -> {
                return lock.remainTimeToLive();
            }
            default -> throw new IllegalArgumentException("no verb " + verb);
        }
    }

    /** {@code fenced.VERB NAME [TIMES]}: the forms that answer with a token. */
    private static Object fenced(String verb, RFencedLock lock, Args args) {
        return switch (verb) {
            case "lock" -> {
                long lease = args.number(0);
                yield lease > 0 ? lock.lockAndGetToken(lease, MS) : lock.lockAndGetToken();
            }
            case "try" -> lock.tryLockAndGetToken(args.number(), args.number(-1), MS);
            case "token" -> lock.getToken();
            default -> throw new IllegalArgumentException("no verb fenced." + verb);
        };
    }
}
