package interop.curator;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Leadership by a {@link LeaderSelector}: a mutex in a thread of its own, which calls back. */
final class Selector implements Door {
    private final CuratorFramework client;
    private final String path;
    private final String id;
    private Candidate candidate;

    Selector(CuratorFramework client, String path, String id) {
        this.client = client;
        this.path = path;
        this.id = id;
    }

    @Override
    public void enter() throws Exception {
        candidate = new Candidate();
        try {
            candidate.elected.await();
        } catch (InterruptedException interrupted) {
            leave();
            throw interrupted;
        }
    }

    @Override
    public boolean enter(long wait) throws Exception {
        candidate = new Candidate();
        boolean leads = candidate.elected.await(wait, MS);
        if (!leads) {
            leave();
        }
        return leads;
    }

    @Override
    public void leave() throws Exception {
        if (candidate == null) {
            throw new IllegalStateException("it was not started");
        }
        candidate.resign();
        candidate = null;
    }

    @Override
    public boolean isIn() {
        return candidate != null && candidate.selector.hasLeadership();
    }

    private final class Candidate extends LeaderSelectorListenerAdapter {
        private final CountDownLatch elected = new CountDownLatch(1);
        private final CountDownLatch resigned = new CountDownLatch(1);
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private final LeaderSelector selector = new LeaderSelector(client, path, thread, this);

        Candidate() {
            selector.setId(id);
            selector.start();
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws InterruptedException {
            elected.countDown();
            resigned.await();
        }

        /** Back when the mutex is free again: that is the last thing its thread does. */
        void resign() throws InterruptedException {
            resigned.countDown();
            if (elected.getCount() > 0) {
                selector.close();
            }
            thread.shutdown();
            thread.awaitTermination(Long.MAX_VALUE, MS);
        }
    }
}
