package interop.redisson;

import java.util.Arrays;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** The command line: {@code OPTION VALUE} pairs. What is not said stays as Redisson has it. */
final class Options {
    private String mode = "single";
    private String[] addresses = {};
    private String master = "";
    private int database;
    private long watchdog;
    private long fairWait;
    private int threads;
    private int nettyThreads;
    private int connections;
    private int subscriptions;

    private Options() {}

    static Config parse(String[] args) {
        Options options = new Options();
        for (int i = 0; i < args.length; i += 2) {
            options.set(args[i], args[i + 1]);
        }
        return options.config();
    }

    private void set(String option, String value) {
        switch (option) {
            case "mode" -> mode = value;
            case "addresses" ->
                addresses = Arrays.stream(value.split(",")).map(a -> "redis://" + a).toArray(String[]::new);
            case "master" -> master = value;
            case "database" -> database = Integer.parseInt(value);
            case "watchdog" -> watchdog = Long.parseLong(value);
            case "fair-wait" -> fairWait = Long.parseLong(value);
            case "threads" -> threads = Integer.parseInt(value);
            case "netty-threads" -> nettyThreads = Integer.parseInt(value);
            case "subscriptions" -> subscriptions = Integer.parseInt(value);
            case "connections" -> connections = Integer.parseInt(value);
            default -> throw new IllegalArgumentException("no option " + option);
        }
    }

    private Config config() {
        Config config = new Config();
        if (watchdog > 0) {
            config.setLockWatchdogTimeout(watchdog);
        }
        if (fairWait > 0) {
            Newer.call(config, "setFairLockWaitTimeout", fairWait);
        }
        if (threads > 0) {
            config.setThreads(threads);
        }
        if (nettyThreads > 0) {
            config.setNettyThreads(nettyThreads);
        }
        servers(config);
        return config;
    }

    private void servers(Config config) {
        switch (mode) {
            case "single" -> {
                SingleServerConfig one = config.useSingleServer().setAddress(addresses[0]).setDatabase(database);
                if (connections > 0) {
                    one.setConnectionPoolSize(connections).setConnectionMinimumIdleSize(1);
                }
                if (subscriptions > 0) {
                    one.setSubscriptionConnectionPoolSize(subscriptions);
                }
            }
            case "sentinel" ->
                pool(config.useSentinelServers()
                        .addSentinelAddress(addresses)
                        .setMasterName(master)
                        .setDatabase(database)
                        .setCheckSentinelsList(false));
            case "cluster" ->
                pool(config.useClusterServers().addNodeAddress(addresses).setScanInterval(500));
            default -> throw new IllegalArgumentException("no mode " + mode);
        }
    }

    private <T extends BaseMasterSlaveServersConfig<T>> void pool(T servers) {
        if (connections > 0) {
            servers.setMasterConnectionPoolSize(connections).setMasterConnectionMinimumIdleSize(1);
            servers.setSlaveConnectionPoolSize(connections).setSlaveConnectionMinimumIdleSize(1);
        }
    }
}
