package org.apache.iceberg.rest;

import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;

/** Local files with a delay of each read and write: of metadata.json by the server, of manifest lists and manifests by clients. */
public final class SlowFiles extends HadoopFileIO {
  private static final long METADATA_READ_MS = Long.getLong("endive.metadata-read-ms");
  private static final long METADATA_WRITE_MS = Long.getLong("endive.metadata-write-ms");
  private static final long FILE_MS = Long.getLong("endive.file-ms");

  @Override
  public InputFile newInputFile(String path) {
    pause(path.endsWith(".metadata.json") ? METADATA_READ_MS : FILE_MS);
    return super.newInputFile(path);
  }

  @Override
  public InputFile newInputFile(String path, long length) {
    pause(path.endsWith(".metadata.json") ? METADATA_READ_MS : FILE_MS);
    return super.newInputFile(path, length);
  }

  @Override
  public OutputFile newOutputFile(String path) {
    pause(path.endsWith(".metadata.json") ? METADATA_WRITE_MS : FILE_MS);
    return super.newOutputFile(path);
  }

  @Override
  public void deleteFile(String path) {
    pause(FILE_MS);
    super.deleteFile(path);
  }

  private static void pause(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }
}
