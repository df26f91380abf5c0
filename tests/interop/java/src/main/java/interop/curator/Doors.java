package interop.curator;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.shared.SharedCount;

/**
 * The doors of one thread. Objects are kept: re-entrance and a read under one's own write are known only to them.
 *
 * <p>A kind is {@code plain} (also called {@code fair}), {@code read}, {@code write}, {@code semaphore-mutex},
 * {@code multi}, {@code permit[:MAX[:N]]}, {@code leader[:ID]} or {@code selector[:ID]}. MAX is a number, or
 * {@code =NAME} for the shared count of that name.
 */
final class Doors {
    private final CuratorFramework client;
    private final Map<String, Door> known = new HashMap<>();
    private final Map<String, InterProcessMutex> mutexes = new HashMap<>();
    private final Map<String, InterProcessReadWriteLock> both = new HashMap<>();

    Doors(CuratorFramework client) {
        this.client = client;
    }

    Door of(String kind, String name) throws Exception {
        Door door = known.get(kind + " " + name);
        if (door == null) {
            door = create(kind.split(":"), name);
            known.put(kind + " " + name, door);
        }
        return door;
    }

    private Door create(String[] kind, String name) throws Exception {
        String path = path(name);
        String id = kind.length > 1 ? kind[1] : "";
        return switch (kind[0]) {
            case "plain", "fair", "read", "write" -> Door.of(mutex(kind[0], name));
            case "semaphore-mutex" -> Door.of(new InterProcessSemaphoreMutex(client, path));
            case "multi" -> Door.of(multi(name));
            case "permit" -> new Permits(semaphore(path, kind), kind.length > 2 ? Integer.parseInt(kind[2]) : 1);
            case "leader" -> new Latch(client, path, id);
            case "selector" -> new Selector(client, path, id);
            default -> throw new IllegalArgumentException("no kind " + kind[0]);
        };
    }

    InterProcessMutex mutex(String kind, String name) {
        return switch (kind) {
            case "plain", "fair" -> mutexes.computeIfAbsent(name, key -> new InterProcessMutex(client, path(name)));
            case "read" -> readWrite(name).readLock();
            case "write" -> readWrite(name).writeLock();
            default -> throw new IllegalArgumentException(kind + " is no mutex");
        };
    }

    private InterProcessReadWriteLock readWrite(String name) {
        return both.computeIfAbsent(name, key -> new InterProcessReadWriteLock(client, path(name)));
    }

    /** All of them, comma separated, as one. */
    private InterProcessLock multi(String names) {
        return new InterProcessMultiLock(
                client, Arrays.stream(names.split(",")).map(Doors::path).toList());
    }

    private InterProcessSemaphoreV2 semaphore(String path, String[] kind) throws Exception {
        String max = kind.length > 1 ? kind[1] : "1";
        return max.startsWith("=")
                ? new InterProcessSemaphoreV2(client, path, count(max.substring(1)))
                : new InterProcessSemaphoreV2(client, path, Integer.parseInt(max));
    }

    /** Follows the changes of others until the process ends. */
    SharedCount count(String name) throws Exception {
        SharedCount count = new SharedCount(client, path(name), 0);
        count.start();
        return count;
    }

    static String path(String name) {
        return "/" + name;
    }
}
