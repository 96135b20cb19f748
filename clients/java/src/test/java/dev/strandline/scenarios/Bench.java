package dev.strandline.scenarios;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import dev.strandline.client.Client;
import dev.strandline.client.LogRecord;
import dev.strandline.client.NewRecord;
import dev.strandline.client.Producer;
import dev.strandline.client.Reader;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;

/**
 * Appends or reads for {@code strandline bench}: bench/driver says what goes through standard input
 * and output. Arguments: {@code append|read ADDRESSES LOG OPTIONS}.
 */
public final class Bench {
  private static final int BUFFER = 1 << 20;

  private final FileOutputStream out = new FileOutputStream(FileDescriptor.out);
  private final ByteArrayOutputStream answers = new ByteArrayOutputStream();
  private boolean all; // no more come; guarded by answers, as they are

  private Bench() {}

  /** Runs until standard input ends, or all has been read. */
  public static void main(String[] arguments) throws IOException {
    JsonObject options = new Gson().fromJson(arguments[3], JsonObject.class);
    Bench bench = new Bench();
    try (Client client = new Client(arguments[1].split(","))) {
      if (arguments[0].equals("read")) {
        bench.read(client, arguments[2], options);
      } else {
        bench.append(client, arguments[2], options);
      }
    }
  }

  private void append(Client client, String log, JsonObject o) throws IOException {
    try (Producer producer =
        client.producer(
            log,
            p -> {
              p.linger(Duration.ofMillis(o.get("linger_ms").getAsLong()));
              p.maxInFlight(o.get("in_flight").getAsInt());
              if (o.get("buffer_bytes").getAsLong() > 0) {
                p.bufferBytes(o.get("buffer_bytes").getAsLong());
              }
              if (o.get("request_bytes").getAsLong() > 0) {
                p.maxRequestBytes(o.get("request_bytes").getAsLong());
              }
              if (o.get("no_session").getAsBoolean()) {
                p.withoutSession();
              }
            })) {
      out.write(0); // ready
      Thread writer = new Thread(this::writeAnswers);
      writer.start();
      DataInputStream in =
          new DataInputStream(
              new BufferedInputStream(new FileInputStream(FileDescriptor.in), BUFFER));
      try {
        for (; ; ) {
          byte[] value = new byte[in.readInt()];
          in.readFully(value);
          producer.append(new NewRecord(value)).whenComplete((offset, error) -> answer(error));
        }
      } catch (EOFException e) {
        // All values are there.
      }
      producer.flush().join();
      synchronized (answers) {
        all = true;
        answers.notify();
      }
      join(writer);
    }
  }

  private void answer(Throwable error) {
    if (error != null) {
      error.printStackTrace();
    }
    synchronized (answers) {
      answers.write(error == null ? 0 : 1);
      if (answers.size() == 1) {
        answers.notify();
      }
    }
  }

  /** Writes answers as they come, many at a time. */
  private void writeAnswers() {
    try {
      for (; ; ) {
        byte[] some;
        synchronized (answers) {
          while (answers.size() == 0) {
            if (all) {
              return;
            }
            answers.wait();
          }
          some = answers.toByteArray();
          answers.reset();
        }
        out.write(some);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static void join(Thread thread) {
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void read(Client client, String log, JsonObject o) throws IOException {
    DataOutputStream runs = new DataOutputStream(out);
    try (Reader reader =
        client.read(
            log,
            r -> {
              r.offset(o.get("offset").getAsLong()).untilOffset(o.get("until_offset").getAsLong());
              if (o.get("follow").getAsBoolean()) {
                r.follow();
              }
            })) {
      for (List<LogRecord> batch = reader.readBatch();
          !batch.isEmpty();
          batch = reader.readBatch()) {
        int size = batch.stream().mapToInt(record -> record.value().length).sum();
        runs.writeLong(((long) batch.size() << 32) | size);
      }
    }
  }
}
