# program: Java (OpenJDK)
# packages: default-jdk-headless
cat >W.java <<'J'
import java.util.concurrent.*;
public class W {
    interface Wait { void run() throws Exception; }
    static void wait(String name, Wait w) throws Exception {
        long s = System.nanoTime();
        w.run();
        System.out.println("200 " + (System.nanoTime() - s) / 1000000 + " " + name);
    }
    public static void main(String[] a) throws Exception {
        wait("Thread.sleep", () -> Thread.sleep(200));
        wait("Object.wait", () -> { Object o = new Object(); synchronized (o) { o.wait(200); } });
        wait("queue.poll", () -> new LinkedBlockingQueue<Integer>().poll(200, TimeUnit.MILLISECONDS));
        ScheduledExecutorService e = Executors.newScheduledThreadPool(2);
        wait("schedule", () -> e.schedule(() -> 1, 200, TimeUnit.MILLISECONDS).get());
        e.shutdown();
    }
}
J
javac W.java && echo - && exec java -Xshare:auto W
