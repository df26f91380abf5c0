package interop.curator;

import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** The command line: {@code OPTION VALUE} pairs. What is not said stays as Curator has it. */
final class Options {
    private static final int PATIENCE = 10_000;

    private String servers = "";
    private int session;
    private Path numbers = Path.of("");

    private Options() {}

    static Options parse(String[] args) {
        Options options = new Options();
        for (int i = 0; i < args.length; i += 2) {
            options.set(args[i], args[i + 1]);
        }
        return options;
    }

    private void set(String option, String value) {
        switch (option) {
            case "servers" -> servers = value;
            case "session" -> session = Integer.parseInt(value);
            case "numbers" -> numbers = Path.of(value);
            default -> throw new IllegalArgumentException("no option " + option);
        }
    }

    /** A file of the folder with the numbers that are counted on. */
    Path number(String key) {
        return numbers.resolve(key);
    }

    CuratorFramework connect() throws InterruptedException {
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
                .connectString(servers)
                .connectionTimeoutMs(PATIENCE)
                .retryPolicy(new ExponentialBackoffRetry(100, 5));
        if (session > 0) {
            builder.sessionTimeoutMs(session);
        }
        CuratorFramework client = builder.build();
        client.start();
        if (!client.blockUntilConnected(PATIENCE, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException("no connection to " + servers);
        }
        return client;
    }
}
