package interop;

import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.redisson.api.RedissonClient;

/** A thread that lives on between requests, since Redisson knows an owner by its thread. */
final class Worker {
    private record Request(String id, String[] words) {}

    private final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
    private final Thread thread;

    Worker(String name, RedissonClient client) {
        Verbs verbs = new Verbs(client);
        thread = new Thread(() -> run(verbs), name);
        thread.setDaemon(true);
        thread.start();
    }

    void give(String id, String[] words) {
        requests.add(new Request(id, words));
    }

    /** Whether it sleeps until a message comes: Redisson parks waiters on local semaphores and gates. */
    boolean isParked() {
        boolean waits = thread.getState() == Thread.State.WAITING || thread.getState() == Thread.State.TIMED_WAITING;
        return waits && Arrays.stream(thread.getStackTrace()).anyMatch(Worker::isGate);
    }

    private static boolean isGate(StackTraceElement frame) {
        return frame.getClassName().equals("java.util.concurrent.Semaphore")
                || frame.getClassName().startsWith("org.redisson.misc.ReclosableLatch");
    }

    private void run(Verbs verbs) {
        while (true) {
            try {
                Request request = requests.take();
                Driver.say(request.id() + " " + answer(verbs, request.words()));
            } catch (InterruptedException nobodyDoesThat) {
                return;
            }
        }
    }

    private static String answer(Verbs verbs, String[] words) {
        try {
            Object value = verbs.perform(words);
            return value == null ? "ok" : "ok " + value;
        } catch (Throwable wrong) {
            return error(wrong);
        }
    }

    static String error(Throwable wrong) {
        return "error " + wrong.getClass().getSimpleName() + " " + wrong.getMessage();
    }
}
