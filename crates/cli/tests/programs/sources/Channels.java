// java.nio channels and java.io streams. Channels channels|streams
import java.io.*;
import java.nio.*;
import java.nio.channels.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.zip.CRC32;

public class Channels {
    static String sum(String name) throws IOException {
        CRC32 crc = new CRC32();
        byte[] bytes = Files.readAllBytes(Path.of(name));
        crc.update(bytes);
        return name + " " + bytes.length + " " + crc.getValue();
    }

    static byte[] part(int k, int length) {
        byte[] bytes = new byte[length];
        new Random(k).nextBytes(bytes);
        return bytes;
    }

    static void channels() throws Exception {
        Set<OpenOption> options = Set.of(StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        try (FileChannel channel = FileChannel.open(Path.of("channel"), options)) {
            for (int k = 0; k < 150; k++) {
                ByteBuffer bytes = k % 2 == 0 ? ByteBuffer.wrap(part(k, 3001)) : ByteBuffer.allocateDirect(3001).put(part(k, 3001)).flip();
                channel.write(bytes, (k * 7 % 150) * 3001L);
            }
            for (int k = 0; k < 150; k++) {
                ByteBuffer bytes = ByteBuffer.allocate(3001);
                channel.read(bytes, (k * 7 % 150) * 3001L);
                if (!Arrays.equals(bytes.array(), part(k, 3001))) {
                    throw new AssertionError("block " + k);
                }
            }
            channel.position(100);
            channel.write(new ByteBuffer[] {ByteBuffer.wrap(part(1, 500)), ByteBuffer.wrap(part(2, 5000))});
            try (FileLock lock = channel.lock(0, 1000, false)) {
                channel.force(true);
            }
            MappedByteBuffer mapped = channel.map(FileChannel.MapMode.READ_WRITE, 4096, 20000);
            System.out.println(mapped.get(5) + " " + channel.position());
            mapped.put(7, (byte) 7);
            mapped.force();
            channel.truncate(400000);
            try (FileChannel to = FileChannel.open(Path.of("transferred"), options)) {
                System.out.println(channel.transferTo(50, 300000, to) + " " + to.transferFrom(channel.position(9), 1000, 5000));
            }
        }
        try (AsynchronousFileChannel channel = AsynchronousFileChannel.open(Path.of("asynchronous"), options, null)) {
            List<java.util.concurrent.Future<Integer>> left = new ArrayList<>();
            for (int k = 0; k < 40; k++) {
                left.add(channel.write(ByteBuffer.wrap(part(k, 5000)), k * 5000L));
            }
            for (var future : left) {
                future.get();
            }
        }
        System.out.println(sum("channel") + "\n" + sum("transferred") + "\n" + sum("asynchronous") + "\n" + sum("input"));
    }

    static void streams() throws Exception {
        try (PrintWriter lines = new PrintWriter("lines", StandardCharsets.UTF_8)) {
            for (int k = 0; k < 9000; k++) {
                lines.println("line " + k);
            }
        }
        try (RandomAccessFile file = new RandomAccessFile("random", "rw")) {
            for (int k = 0; k < 300; k++) {
                file.seek(k * 1009L % 200000);
                file.write(part(k, 700));
                file.writeLong(k);
            }
            file.setLength(150000);
            file.seek(33);
            System.out.println(file.readLong() + " " + file.length());
        }
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream("random", true), 999))) {
            for (int k = 0; k < 5000; k++) {
                out.writeInt(k);
            }
        }
        Files.copy(Path.of("random"), Path.of("copied"), StandardCopyOption.REPLACE_EXISTING);
        Files.write(Path.of("lines"), List.of("appended"), StandardOpenOption.APPEND);
        Files.move(Path.of("copied"), Path.of("moved"), StandardCopyOption.ATOMIC_MOVE);
        System.out.println(Files.lines(Path.of("lines")).count() + "\n" + sum("random") + "\n" + sum("moved") + "\n" + sum("lines"));
        Process child = new ProcessBuilder("cat").redirectInput(new File("random")).redirectOutput(new File("child")).start();
        System.out.println(child.waitFor() + " " + sum("child"));
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("channels")) {
            channels();
        } else {
            streams();
        }
    }
}
