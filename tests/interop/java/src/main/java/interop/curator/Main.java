package interop.curator;

import interop.Driver;
import interop.Library;
import java.io.IOException;
import org.apache.curator.framework.CuratorFramework;

/** The driver around Curator. Its waiters look again before they sleep, and so miss nothing wherever they stand. */
public final class Main implements Library {
    private final CuratorFramework client;
    private final Options options;
    private final Revocations revocations = new Revocations();

    private Main(Options options) throws InterruptedException {
        this.options = options;
        client = options.connect();
    }

    public static void main(String[] args) throws IOException {
        Driver.serve(() -> new Main(Options.parse(args)));
    }

    @Override
    public Owner owner() {
        return new Verbs(client, options, revocations);
    }
}
