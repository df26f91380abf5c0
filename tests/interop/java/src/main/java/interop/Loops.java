package interop;

/** Locks taken over and over: a counter that must lose nothing. */
public final class Loops {
    private Loops() {}

    /** Anything that lets one in (or a few), by one thread. */
    public interface Gate {
        void enter() throws Exception;

        void leave() throws Exception;
    }

    /** Where a thread gets its gate of a kind and name. */
    public interface Gates {
        Gate of(String kind, String name) throws Exception;
    }

    /** A number that nothing protects but a gate. */
    public interface Number {
        /** Null if there is none yet. */
        String get() throws Exception;

        void set(String value) throws Exception;
    }

    /** Adds 1 to a number, {@code n} times, by reading it and writing it back. */
    public static int count(Number number, int n, Gate gate) throws Exception {
        for (int i = 0; i < n; i++) {
            gate.enter();
            String before = number.get();
            number.set(String.valueOf(before == null ? 1 : Long.parseLong(before) + 1));
            gate.leave();
        }
        return n;
    }
}
