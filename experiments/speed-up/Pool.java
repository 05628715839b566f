import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Hashes by a pool of threads: `java Pool THREADS`. */
class Pool {
    public static void main(String[] words) throws Exception {
        var pool = Executors.newFixedThreadPool(Integer.parseInt(words[0]));
        var parts = new ArrayList<Future<byte[]>>();
        for (int part = 0; part < 64; part++) {
            int first = part;
            parts.add(pool.submit(() -> {
                var digest = MessageDigest.getInstance("SHA-256");
                byte[] sum = {(byte) first};
                for (int turn = 0; turn < 15_000; turn++) sum = digest.digest(sum);
                return sum;
            }));
        }
        for (var part : parts) part.get();
        pool.shutdown();
    }
}
