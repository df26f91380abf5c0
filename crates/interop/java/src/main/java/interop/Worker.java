package interop;

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

    void interrupt() {
        thread.interrupt();
    }

    private void run(Verbs verbs) {
        while (true) {
            Request request;
            try {
                request = requests.take();
            } catch (InterruptedException meantForAnEarlierRequest) {
                continue;
            }
            Driver.say(request.id() + " " + answer(verbs, request.words()));
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
