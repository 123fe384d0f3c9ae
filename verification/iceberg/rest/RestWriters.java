package org.apache.iceberg.rest;

import java.util.ArrayList;
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
  public static void main(String[] arguments) throws Exception {
    String uri = arguments[0];
    TableIdentifier name = TableIdentifier.of("db", arguments[1]);
    int writers = Integer.parseInt(arguments[2]);
    boolean kept = Boolean.parseBoolean(arguments[3]);
    long seconds = Long.parseLong(arguments[4]);
    create(open(uri), name);
    if (writers == 0) {
      return;
    }
    List<RESTCatalog> catalogs = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      catalogs.add(open(uri));
    }
    int[] commits = new int[writers];
    int[] failures = new int[writers];
    long deadline = System.nanoTime() + seconds * 1_000_000_000L;
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      int number = i;
      threads.add(new Thread(() -> write(catalogs.get(number), name, kept, new Random(number), deadline, commits, failures, number)));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    System.out.println(sum(commits) + " " + sum(failures));
    System.exit(0);
  }

  private static void write(
      RESTCatalog catalog, TableIdentifier name, boolean kept, Random random, long deadline, int[] commits, int[] failures, int number) {
    Table table = null;
    while (System.nanoTime() < deadline) {
      table = table == null || !kept ? catalog.loadTable(name) : table;
      DataFile file =
          DataFiles.builder(PartitionSpec.unpartitioned())
              .withPath("file:///nowhere/" + random.nextLong() + ".parquet")
              .withFileSizeInBytes(1_000)
              .withRecordCount(1)
              .build();
      try {
        Thread.sleep(100 + random.nextInt(401));
        table.newFastAppend().appendFile(file).commit();
        commits[number]++;
      } catch (CommitFailedException lost) {
        failures[number]++;
      } catch (InterruptedException error) {
        throw new IllegalStateException(error);
      }
    }
  }

  private static int sum(int[] counts) {
    int total = 0;
    for (int count : counts) {
      total += count;
    }
    return total;
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
