package oracle;

import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Classes by their names, because releases have them in different places, or not at all, or not public. */
final class Reflected {
    private Reflected() {}

    /** The first of some names that this release has. */
    static Class<?> type(String... names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                // the next one
            }
        }
        throw new ClassNotFoundException(names[0]);
    }

    @SuppressWarnings("unchecked")
    static <T> T make(Class<?> type, Object... arguments) throws ReflectiveOperationException {
        for (Constructor<?> each : type.getDeclaredConstructors()) {
            if (fits(each, arguments)) {
                each.setAccessible(true);
                return (T) unwrapped(() -> each.newInstance(arguments));
            }
        }
        throw new NoSuchMethodException(type + " of " + arguments.length);
    }

    static <T> T make(String name, Object... arguments) throws ReflectiveOperationException {
        return make(type(name), arguments);
    }

    @SuppressWarnings("unchecked")
    static <T> T call(Object target, String name, Object... arguments) throws ReflectiveOperationException {
        boolean isStatic = target instanceof Class;
        for (Class<?> at = isStatic ? (Class<?>) target : target.getClass(); at != null; at = at.getSuperclass()) {
            for (Method each : at.getDeclaredMethods()) {
                if (each.getName().equals(name) && fits(each, arguments)) {
                    each.setAccessible(true);
                    return (T) unwrapped(() -> each.invoke(isStatic ? null : target, arguments));
                }
            }
        }
        throw new NoSuchMethodException(target + " " + name);
    }

    @SuppressWarnings("unchecked")
    static <T> T constant(Class<?> type, String name) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(null);
    }

    private interface Invocation {
        Object run() throws ReflectiveOperationException;
    }

    private static Object unwrapped(Invocation invocation) throws ReflectiveOperationException {
        try {
            return invocation.run();
        } catch (InvocationTargetException e) {
            throw new IllegalStateException(e.getCause());
        }
    }

    private static boolean fits(Executable executable, Object[] arguments) {
        Class<?>[] wanted = executable.getParameterTypes();
        if (wanted.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < wanted.length; i++) {
            if (arguments[i] == null ? wanted[i].isPrimitive() : !boxed(wanted[i]).isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }

    private static Class<?> boxed(Class<?> type) {
        return type.isPrimitive() ? java.lang.invoke.MethodType.methodType(type).wrap().returnType() : type;
    }
}
