package interop.curator;

import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** So many permits of a semaphore. Each time others, so that one thread may have them more than once. */
final class Permits implements Door {
    private final InterProcessSemaphoreV2 semaphore;
    private final int n;
    private final Deque<Collection<Lease>> held = new ArrayDeque<>();

    Permits(InterProcessSemaphoreV2 semaphore, int n) {
        this.semaphore = semaphore;
        this.n = n;
    }

    @Override
    public void enter() throws Exception {
        held.push(semaphore.acquire(n));
    }

    @Override
    public boolean enter(long wait) throws Exception {
        Collection<Lease> leases = semaphore.acquire(n, wait, MS);
        if (leases != null) {
            held.push(leases);
        }
        return leases != null;
    }

    @Override
    public void leave() {
        if (held.isEmpty()) {
            throw new IllegalMonitorStateException("no permit is held");
        }
        semaphore.returnAll(held.pop());
    }

    @Override
    public boolean isIn() {
        return !held.isEmpty();
    }
}
