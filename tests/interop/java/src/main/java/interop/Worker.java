package interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A thread that lives on between requests, since an owner is known by its thread. */
final class Worker {
    private record Request(String id, String[] words) {}

    private final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
    private final Library library;
    private final Thread thread;

    Worker(String name, Library library) {
        this.library = library;
        Library.Owner owner = library.owner();
        thread = new Thread(() -> run(owner), name);
        thread.setDaemon(true);
        thread.start();
    }

    void give(String id, String[] words) {
        requests.add(new Request(id, words));
    }

    boolean isParked() {
        return library.isParked(thread);
    }

    /** What it does at the moment fails. */
    void interrupt() {
        thread.interrupt();
    }

    private void run(Library.Owner owner) {
        while (true) {
            try {
                Request request = requests.take();
                String answer = answer(owner, request.words());
                // Meant for that request, whether it noticed or not.
                Thread.interrupted();
                Driver.say(request.id() + " " + answer);
            } catch (InterruptedException nothingWasUnderWay) {
                continue;
            }
        }
    }

    private static String answer(Library.Owner owner, String[] words) {
        try {
            Object value = owner.perform(new Args(words));
            return value == null ? "ok" : "ok " + value;
        } catch (Throwable wrong) {
            return error(wrong);
        }
    }

    static String error(Throwable wrong) {
        return "error " + wrong.getClass().getSimpleName() + " " + wrong.getMessage();
    }
}
