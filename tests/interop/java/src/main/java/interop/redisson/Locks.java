package interop.redisson;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The locks of one thread. Objects are kept: one that is re-entered keeps its lease in itself. */
final class Locks {
    private final RedissonClient client;
    private final Map<String, RLock> known = new HashMap<>();

    Locks(RedissonClient client) {
        this.client = client;
    }

    RLock of(String kind, String name) {
        return known.computeIfAbsent(kind + " " + name, key -> create(client, kind, name));
    }

    /** All of them, comma separated, as one. */
    RLock all(String names) {
        return known.computeIfAbsent("multi " + names, key -> {
            RLock[] parts = Arrays.stream(names.split(",")).map(client::getLock).toArray(RLock[]::new);
            return client.getMultiLock(parts);
        });
    }

    static RLock create(RedissonClient client, String kind, String name) {
        return switch (kind) {
            case "plain" -> client.getLock(name);
            case "fair" -> client.getFairLock(name);
            case "read" -> client.getReadWriteLock(name).readLock();
            case "write" -> client.getReadWriteLock(name).writeLock();
            case "fenced" -> client.getFencedLock(name);
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }
}
