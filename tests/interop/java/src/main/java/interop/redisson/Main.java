package interop.redisson;

import interop.Driver;
import interop.Library;
import java.io.IOException;
import java.util.Arrays;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/** The driver around Redisson. */
public final class Main implements Library {
    private final RedissonClient client;

    private Main(RedissonClient client) {
        this.client = client;
    }

    public static void main(String[] args) throws IOException {
        Driver.serve(() -> new Main(Redisson.create(Options.parse(args))));
    }

    @Override
    public Owner owner() {
        return new Verbs(client);
    }

    /** Redisson parks waiters on local semaphores and gates. */
    @Override
    public boolean isParked(Thread thread) {
        boolean waits = thread.getState() == Thread.State.WAITING || thread.getState() == Thread.State.TIMED_WAITING;
        return waits && Arrays.stream(thread.getStackTrace()).anyMatch(Main::isGate);
    }

    private static boolean isGate(StackTraceElement frame) {
        return frame.getClassName().equals("java.util.concurrent.Semaphore")
                || frame.getClassName().startsWith("org.redisson.misc.ReclosableLatch");
    }
}
