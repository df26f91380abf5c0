package interop.curator;

import interop.Args;
import interop.Bench;
import interop.Library;
import interop.Loops;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** What can be asked for. Times are in milliseconds; names are paths without the first slash. */
final class Verbs implements Library.Owner {
    private final CuratorFramework client;
    private final Options options;
    private final Revocations revocations;
    private final Doors doors;
    private final Nodes nodes;

    Verbs(CuratorFramework client, Options options, Revocations revocations) {
        this.client = client;
        this.options = options;
        this.revocations = revocations;
        doors = new Doors(client);
        nodes = new Nodes(client);
    }

    @Override
    public Object perform(Args args) throws Exception {
        String verb = args.word();
        int dot = verb.indexOf('.');
        switch (dot < 0 ? "" : verb.substring(0, dot)) {
            case "bench":
                return Bench.perform(
                        verb.substring(dot + 1), (kind, name) -> new Doors(client).of(kind, name), args);
            case "node":
                return node(verb.substring(dot + 1), args);
            case "shared":
                return shared(verb.substring(dot + 1), args);
            case "leader":
                return leader(verb.substring(dot + 1), Doors.path(args.word()));
            default:
        }
        switch (verb) {
            case "close" -> {
                client.close();
                return null;
            }
            case "session" -> {
                return nodes.session();
            }
            case "count" -> {
                FileNumber number = new FileNumber(options.number(args.word()));
                return Loops.count(number, (int) args.number(), doors.of(args.word(), args.word()));
            }
            default -> {
                return door(verb, args.word(), args.word(), args);
            }
        }
    }

    /** {@code VERB KIND NAME [NUMBER]}. */
    private Object door(String verb, String kind, String name, Args args) throws Exception {
        String lock = kind + " " + name;
        switch (verb) {
            case "lock" -> {
                doors.of(kind, name).enter();
                return null;
            }
            case "try" -> {
                return doors.of(kind, name).enter(args.number(0));
            }
            case "unlock" -> {
                doors.of(kind, name).leave();
                return null;
            }
            case "is-held" -> {
                return doors.of(kind, name).isIn();
            }
            case "participants" -> {
                return String.join(",", doors.mutex(kind, name).getParticipantNodes());
            }
            case "revoke" -> {
                Revoker.attemptRevoke(client, participant(kind, name, (int) args.number()));
                return null;
            }
            case "revocable" -> {
                revocations.listen(lock, doors.mutex(kind, name));
                return null;
            }
            case "revoked" -> {
                return revocations.next(lock, args.number(0));
            }
            default -> throw new IllegalArgumentException("no verb " + verb);
        }
    }

    /** The path of one of those who hold or wait, counted from 0. */
    private String participant(String kind, String name, int n) throws Exception {
        return List.copyOf(doors.mutex(kind, name).getParticipantNodes()).get(n);
    }

    /** {@code leader.VERB NAME} */
    private Object leader(String verb, String path) throws Exception {
        return switch (verb) {
            case "who" -> Latch.leader(client, path);
            case "all" -> Latch.participants(client, path);
            default -> throw new IllegalArgumentException("no verb leader." + verb);
        };
    }

    /** {@code shared.VERB NAME [N]} */
    private Object shared(String verb, Args args) throws Exception {
        try (SharedCount count = doors.count(args.word())) {
            switch (verb) {
                case "get" -> {
                    return count.getCount();
                }
                case "set" -> {
                    count.setCount((int) args.number());
                    return null;
                }
                default -> throw new IllegalArgumentException("no verb shared." + verb);
            }
        }
    }

    /** {@code node.VERB NAME [DATA]} */
    private Object node(String verb, Args args) throws Exception {
        String name = args.word();
        switch (verb) {
            case "children" -> {
                return nodes.children(name);
            }
            case "data" -> {
                return nodes.data(name);
            }
            case "owner" -> {
                return nodes.owner(name);
            }
            case "write" -> {
                nodes.write(name, args.rest());
                return null;
            }
            case "delete" -> {
                nodes.delete(name);
                return null;
            }
            default -> throw new IllegalArgumentException("no verb node." + verb);
        }
    }
}
