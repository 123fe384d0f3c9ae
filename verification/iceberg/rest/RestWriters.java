package org.apache.iceberg.rest;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.types.Types;

/** Writers with Iceberg's RESTCatalog: each appends in a closed loop, with a handle of its own that it loads anew or keeps. */
public final class RestWriters {
  private static final long WARM_UP_NANOS = 8_000_000_000L;
  private static final int PAUSE_MIN_MS = Integer.getInteger("endive.pause-min-ms");
  private static final int PAUSE_MAX_MS = Integer.getInteger("endive.pause-max-ms");

  public static void main(String[] arguments) throws Exception {
    String uri = arguments[0];
    TableIdentifier name = TableIdentifier.of("db", arguments[1]);
    int writers = Integer.parseInt(arguments[2]);
    boolean kept = Boolean.parseBoolean(arguments[3]);
    long seconds = Long.parseLong(arguments[4]);
    RESTCatalog first = open(uri);
    create(first, name);
    warmUp(first, TableIdentifier.of("db", arguments[1] + "_warm_up"));
    List<RESTCatalog> catalogs = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      catalogs.add(open(uri));
    }
    int[] commits = new int[writers];
    int[] failures = new int[writers];
    long begin = System.nanoTime();
    double[] busy = new double[writers];
    long deadline = begin + seconds * 1_000_000_000L;
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      int number = i;
      threads.add(
          new Thread(
              () -> {
                long paused = write(catalogs.get(number), name, kept, new Random(number), deadline, commits, failures, number);
                busy[number] = (System.nanoTime() - begin) / 1e6 - paused;
              }));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    System.out.println(Arrays.stream(commits).sum() + " " + Arrays.stream(failures).sum() + " " + Arrays.stream(busy).sum());
    System.exit(0);
  }

  /** Append until the deadline, and return the sum of the pauses in ms. */
  private static long write(
      RESTCatalog catalog, TableIdentifier name, boolean kept, Random random, long deadline, int[] commits, int[] failures, int number) {
    Table table = null;
    long paused = 0;
    while (System.nanoTime() < deadline) {
      table = table == null || !kept ? catalog.loadTable(name) : table;
      DataFile file =
          DataFiles.builder(PartitionSpec.unpartitioned())
              .withPath("file:///nowhere/" + random.nextLong() + ".parquet")
              .withFileSizeInBytes(1_000)
              .withRecordCount(1)
              .build();
      try {
        int pause = PAUSE_MIN_MS + random.nextInt(PAUSE_MAX_MS - PAUSE_MIN_MS + 1);
        Thread.sleep(pause);
        paused += pause;
        table.newFastAppend().appendFile(file).commit();
        commits[number]++;
      } catch (CommitFailedException lost) {
        failures[number]++;
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
    return paused;
  }

  /** Load classes and compile them, and the server's, so that the first operations of a case are as fast as the others. */
  private static void warmUp(RESTCatalog catalog, TableIdentifier name) {
    create(catalog, name);
    int[] counts = new int[1];
    write(catalog, name, false, new Random(0), System.nanoTime() + WARM_UP_NANOS, counts, counts, 0);
  }

  private static RESTCatalog open(String uri) {
    RESTCatalog catalog = new RESTCatalog();
    Map<String, String> properties = new HashMap<>();
    properties.put("uri", uri);
    properties.put("io-impl", SlowFiles.class.getName());
    catalog.setConf(new Configuration());
    catalog.initialize("verification", properties);
    return catalog;
  }

  private static void create(RESTCatalog catalog, TableIdentifier name) {
    try {
      catalog.createNamespace(Namespace.of("db"));
    } catch (AlreadyExistsException exists) {
      // a table of an earlier case has made it
    }
    catalog.createTable(name, new Schema(Types.NestedField.required(1, "id", Types.LongType.get())));
  }
}
