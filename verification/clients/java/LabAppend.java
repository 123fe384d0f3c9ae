package endive;

import java.io.OutputStream;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

/** One append with Iceberg's RESTCatalog to a table of the lab, which is created if it does not exist. */
public final class LabAppend {
  public static void main(String[] arguments) throws Exception {
    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf(new Configuration());
    String io = LabFiles.class.getName();
    catalog.initialize(
        "lab", Map.of("uri", System.getenv("ENDIVE_LAB_CATALOG"), "token", System.getenv("ENDIVE_LAB_TOKEN"), "io-impl", io));
    Table table = load(catalog, TableIdentifier.of("db", "t"));
    String path = table.locationProvider().newDataLocation(UUID.randomUUID() + ".parquet");
    try (OutputStream data = table.io().newOutputFile(path).create()) {
      data.write(new byte[1000]);
    }
    DataFile file =
        DataFiles.builder(PartitionSpec.unpartitioned()).withPath(path).withFileSizeInBytes(1_000).withRecordCount(3).build();
    table.newFastAppend().appendFile(file).commit();
    System.exit(0);
  }

  private static Table load(RESTCatalog catalog, TableIdentifier name) {
    try {
      return catalog.loadTable(name);
    } catch (NoSuchTableException missing) {
      catalog.createNamespace(Namespace.of("db"));
      return catalog.createTable(name, new Schema(Types.NestedField.required(1, "id", Types.LongType.get())));
    }
  }
}
