package interop.curator;

import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Looks at what is there, past all recipes. Each as new as what anybody was told before. */
final class Nodes {
    private static final int DIGITS = 10;

    private final CuratorFramework client;

    Nodes(CuratorFramework client) {
        this.client = client;
    }

    /** Names in the order of their numbers. */
    String children(String name) throws Exception {
        try {
            List<String> names = synced().getChildren().forPath(Doors.path(name));
            return String.join(",", names.stream().sorted(Comparator.comparing(Nodes::digits)).toList());
        } catch (KeeperException.NoNodeException none) {
            return "";
        }
    }

    private static String digits(String child) {
        return child.substring(Math.max(0, child.length() - DIGITS));
    }

    String data(String name) throws Exception {
        return new String(synced().getData().forPath(Doors.path(name)), StandardCharsets.UTF_8);
    }

    void write(String name, String data) throws Exception {
        client.setData().forPath(Doors.path(name), data.getBytes(StandardCharsets.UTF_8));
    }

    void delete(String name) throws Exception {
        client.delete().forPath(Doors.path(name));
    }

    /** The session that a node lives and dies with; 0 for none. */
    String owner(String name) throws Exception {
        Stat stat = synced().checkExists().forPath(Doors.path(name));
        return stat == null ? "gone" : Long.toHexString(stat.getEphemeralOwner());
    }

    String session() throws Exception {
        return Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId());
    }

    private CuratorFramework synced() throws Exception {
        client.sync().forPath("/");
        return client;
    }
}
