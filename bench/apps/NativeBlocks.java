// What malloc does below a Java virtual machine: direct buffers of many sizes that are made and dropped, zlib's states, and
// threads. The heap of Java objects itself is mapped memory and not malloc's. The argument is the number of turns a thread makes.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public final class NativeBlocks {
    private static final int THREADS = 4;
    private static final int KEPT = 20_000; // buffers of each thread
    private static final int LEAST = 256;
    private static final int MOST = 16_384;
    private static final int ZIPPED_EVERY = 50; // turns

    private final ByteBuffer[] buffers = new ByteBuffer[KEPT];
    private final sun.misc.Unsafe unsafe;
    private long state;
    private long sum;

    private NativeBlocks(long seed, sun.misc.Unsafe unsafe) {
        this.state = seed;
        this.unsafe = unsafe;
    }

    private int draw(int below) {
        state = state * 6364136223846793005L + 1442695040888963407L;
        return (int) ((state >>> 33) % below);
    }

    private ByteBuffer make(int value) {
        ByteBuffer made = ByteBuffer.allocateDirect(LEAST + draw(MOST - LEAST));
        for (int at = 0; at < made.capacity(); at += 64) {
            made.put(at, (byte) (value + at));
        }
        made.put(made.capacity() - 1, (byte) value);
        return made;
    }

    private void zip(ByteBuffer from) throws Exception {
        byte[] plain = new byte[from.capacity()];
        from.duplicate().get(plain);
        Deflater deflater = new Deflater(1);
        byte[] zipped = new byte[2 * plain.length + 100];
        deflater.setInput(plain);
        deflater.finish();
        int bytes = deflater.deflate(zipped);
        deflater.end();
        Inflater inflater = new Inflater();
        byte[] again = new byte[plain.length];
        inflater.setInput(zipped, 0, bytes);
        int got = inflater.inflate(again);
        inflater.end();
        if (got != plain.length || !java.util.Arrays.equals(plain, again)) {
            throw new IllegalStateException("a buffer is not what it was");
        }
        sum += bytes;
    }

    private void run(int turns) throws Exception {
        for (int at = 0; at < KEPT; at++) {
            buffers[at] = make(at);
        }
        for (int turn = 0; turn < turns; turn++) {
            int at = draw(KEPT);
            ByteBuffer old = buffers[at];
            sum += old.get(old.capacity() - 1);
            if (turn % ZIPPED_EVERY == 0) {
                zip(old);
            }
            unsafe.invokeCleaner(old); // as libraries for networks do: at once, not when the collector runs
            buffers[at] = make(turn);
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 1 || !args[0].matches("[1-9][0-9]{0,8}")) {
            System.err.println("NativeBlocks: arguments are '" + String.join(" ", args) + "'; allowed: one number, 1 or more");
            System.exit(2);
        }
        int turns = Integer.parseInt(args[0]);
        java.lang.reflect.Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) field.get(null);
        List<Thread> threads = new ArrayList<>();
        NativeBlocks[] parts = new NativeBlocks[THREADS];
        for (int index = 0; index < THREADS; index++) {
            NativeBlocks part = parts[index] = new NativeBlocks(index + 1, unsafe);
            Thread thread = new Thread(() -> {
                try {
                    part.run(turns);
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            threads.add(thread);
            thread.start();
        }
        long sum = 0;
        for (int index = 0; index < THREADS; index++) {
            threads.get(index).join();
            sum = 31 * sum + parts[index].sum;
        }
        System.out.println("sum=" + sum);
    }
}
