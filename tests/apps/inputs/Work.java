import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

/** Threads that use the native side of the JVM: zip streams and direct buffers come from malloc. */
public class Work {
    static String work(int seed) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        Random chance = new Random(seed);
        for (int round = 0; round < 40; round++) {
            ByteBuffer direct = ByteBuffer.allocateDirect(100_000 + chance.nextInt(200_000));
            while (direct.remaining() > 8)
                direct.putLong(chance.nextInt(1000));
            byte[] bytes = new byte[direct.flip().limit()];
            direct.get(bytes);
            Deflater deflater = new Deflater(1 + round % 6);
            deflater.setInput(bytes);
            deflater.finish();
            byte[] packed = new byte[bytes.length + 100];
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            byte[] back = new byte[bytes.length];
            if (inflater.inflate(back) != bytes.length || !Arrays.equals(back, bytes))
                throw new IllegalStateException("inflated something else");
            inflater.end();
            digest.update(back);
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(6);
        List<Future<String>> results = new ArrayList<>();
        for (int seed = 0; seed < 12; seed++) {
            final int mine = seed;
            results.add(threads.submit(() -> work(mine)));
        }
        for (Future<String> result : results)
            System.out.println(result.get());
        threads.shutdown();
        Process child = new ProcessBuilder("/bin/echo", "from a child").inheritIO().start();
        System.exit(child.waitFor());
    }
}
