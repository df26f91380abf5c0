package interop.curator;

import interop.Loops.Gate;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** What one thread goes in and out by. */
interface Door extends Gate {
    TimeUnit MS = TimeUnit.MILLISECONDS;

    /** Whether it is in, after so many milliseconds at most. */
    boolean enter(long wait) throws Exception;

    boolean isIn();

    /** Through a lock: a mutex, half of a read/write lock, several as one. */
    static Door of(InterProcessLock lock) {
        return new Door() {
            public void enter() throws Exception {
                lock.acquire();
            }

            public boolean enter(long wait) throws Exception {
                return lock.acquire(wait, MS);
            }

            public void leave() throws Exception {
                lock.release();
            }

            public boolean isIn() {
                return lock instanceof InterProcessMutex mutex
                        ? mutex.isOwnedByCurrentThread()
                        : lock.isAcquiredInThisProcess();
            }
        };
    }
}
