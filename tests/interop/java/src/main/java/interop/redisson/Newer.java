package interop.redisson;

import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/** Methods that older versions of the library lack: called by name, so that the driver can be built with those, too. */
final class Newer {
    private Newer() {}

    static Object call(Object on, String name, Object... args) {
        var method = Arrays.stream(on.getClass().getMethods())
                .filter(one -> one.getName().equals(name) && one.getParameterCount() == args.length)
                .findFirst()
                .orElseThrow(() -> new UnsupportedOperationException("this version has no " + name));
        try {
            return method.invoke(on, args);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }
}
