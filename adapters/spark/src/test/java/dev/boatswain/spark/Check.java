package dev.boatswain.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.BooleanSupplier;

/** Runs the tests: each static method of the classes below that takes nothing. Plain Java, so that a JDK is all it needs. */
public final class Check {
    private static final Class<?>[] TESTS = {
        SettingsTests.class, ExecutorProfileTests.class, LossesTests.class, SenderTests.class, EventReaderTests.class,
        SecondLookTests.class, ExecutorMetricsTests.class
    };
    private static final long WAIT_MS = 10_000;

    interface Action {
        void run() throws Exception;
    }

    private Check() {}

    static void equal(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError("found " + found + " instead of " + wanted);
        }
    }

    /** Fails unless the action fails with a message that contains the text. */
    static void fails(String text, Action action) {
        try {
            action.run();
        } catch (Exception e) {
            if (!String.valueOf(e.getMessage()).contains(text)) {
                throw new AssertionError("failed with: " + e.getMessage(), e);
            }
            return;
        }
        throw new AssertionError("did not fail with: " + text);
    }

    static void eventually(BooleanSupplier condition) throws InterruptedException {
        long until = System.nanoTime() + WAIT_MS * 1_000_000;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > until) {
                throw new AssertionError("not within " + WAIT_MS + " ms");
            }
            Thread.sleep(5);
        }
    }

    public static void main(String[] arguments) throws IllegalAccessException {
        int passed = 0;
        int failed = 0;
        for (Class<?> tests : TESTS) {
            Method[] methods = Arrays.stream(tests.getDeclaredMethods())
                    .filter(method -> Modifier.isStatic(method.getModifiers()) && method.getParameterCount() == 0)
                    .filter(method -> method.getReturnType() == void.class && !method.isSynthetic())
                    .toArray(Method[]::new);
            for (Method test : methods) {
                test.setAccessible(true);
                try {
                    test.invoke(null);
                    passed++;
                } catch (InvocationTargetException e) {
                    failed++;
                    System.out.println("FAILED " + tests.getSimpleName() + "." + test.getName());
                    e.getCause().printStackTrace(System.out);
                }
            }
        }
        System.out.println(passed + " tests of the adapter's parts passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }
}
