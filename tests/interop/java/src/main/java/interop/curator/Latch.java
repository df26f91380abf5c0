package interop.curator;

import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;

/** Leadership by a {@link LeaderLatch}, which can be started once: each time another one. */
final class Latch implements Door {
    private final CuratorFramework client;
    private final String path;
    private final String id;
    private LeaderLatch latch;

    Latch(CuratorFramework client, String path, String id) {
        this.client = client;
        this.path = path;
        this.id = id;
    }

    private void start() throws Exception {
        if (latch != null) {
            throw new IllegalStateException("it is in already");
        }
        latch = new LeaderLatch(client, path, id);
        latch.start();
    }

    @Override
    public void enter() throws Exception {
        start();
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            leave();
            throw interrupted;
        }
    }

    /** It knows no try: of a time too short for its first look it is never in. */
    @Override
    public boolean enter(long wait) throws Exception {
        start();
        boolean leads = latch.await(wait, MS);
        if (!leads) {
            leave();
        }
        return leads;
    }

    @Override
    public void leave() throws Exception {
        if (latch == null) {
            throw new IllegalStateException("it was not started");
        }
        latch.close();
        latch = null;
    }

    @Override
    public boolean isIn() {
        return latch != null && latch.hasLeadership();
    }

    /** The id of whoever leads, as anybody sees it. */
    static String leader(CuratorFramework client, String path) throws Exception {
        return new LeaderLatch(client, path).getLeader().getId();
    }

    /** The ids of all, the leader's first. */
    static String participants(CuratorFramework client, String path) throws Exception {
        return new LeaderLatch(client, path)
                .getParticipants().stream().map(Participant::getId).collect(Collectors.joining(","));
    }
}
