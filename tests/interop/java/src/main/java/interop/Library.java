package interop;

/** The library that a driver is around. */
public interface Library {
    /** One more owner, for a thread of its own. */
    Owner owner();

    /** Whether a busy thread sleeps until a message comes, and would not miss one. */
    default boolean isParked(Thread thread) {
        return true;
    }

    /** Who does what requests say. */
    interface Owner {
        /** What there is to say about it, or null. */
        Object perform(Args args) throws Exception;
    }
}
