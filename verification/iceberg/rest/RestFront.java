package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Serve Iceberg's CatalogHandlers over JdbcCatalog by the HTTP server of the JDK, on loopback. The object mapper of Iceberg's REST
 * classes is package-private, so this class is in their package. Requests are timed: GET /times returns and forgets them.
 */
public final class RestFront {
  private static final ObjectMapper MAPPER = RESTObjectMapper.mapper();
  private final JdbcCatalog catalog = new JdbcCatalog();
  private final ConcurrentLinkedQueue<String> times = new ConcurrentLinkedQueue<>();

  public static void main(String[] arguments) throws Exception {
    new RestFront().serve(arguments[0], arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]));
    Thread.sleep(Long.MAX_VALUE);
  }

  private void serve(String uri, String user, String password, String warehouse, int workers) throws IOException {
    Map<String, String> properties = new HashMap<>();
    properties.put("uri", uri);
    properties.put("jdbc.user", user);
    properties.put("jdbc.password", password);
    properties.put("warehouse", warehouse);
    properties.put("clients", "32");
    properties.put("io-impl", SlowFiles.class.getName());
    catalog.setConf(new Configuration());
    catalog.initialize("verification", properties);
    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext("/", this::handle);
    server.setExecutor(workers > 0 ? Executors.newFixedThreadPool(workers) : Executors.newCachedThreadPool());
    server.start();
    System.out.println(server.getAddress().getPort());
  }

  private void handle(HttpExchange exchange) throws IOException {
    long begin = System.nanoTime();
    String kind = exchange.getRequestMethod();
    int code = 200;
    byte[] body;
    try {
      body = respond(kind, exchange.getRequestURI().getPath(), exchange.getRequestBody().readAllBytes());
    } catch (RuntimeException error) {
      code = error instanceof CommitFailedException || error instanceof AlreadyExistsException ? 409 : 500;
      code = error instanceof NoSuchTableException ? 404 : code;
      String type = error.getClass().getSimpleName();
      ErrorResponse response = ErrorResponse.builder().responseCode(code).withType(type).withMessage(type + ": " + error.getMessage()).build();
      body = MAPPER.writeValueAsBytes(response);
    }
    String[] parts = exchange.getRequestURI().getPath().split("/");
    if (parts.length == 6) { // loads and commits of tables, not metrics reports
      times.add(kind + " " + code + " " + (System.nanoTime() - begin) / 1e6 + " " + parts[5]);
    }
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(code, body.length);
    exchange.getResponseBody().write(body);
    exchange.close();
  }

  private byte[] respond(String method, String path, byte[] body) throws IOException {
    if (path.equals("/times")) {
      StringBuilder lines = new StringBuilder();
      for (String line = times.poll(); line != null; line = times.poll()) {
        lines.append(line).append('\n');
      }
      return lines.toString().getBytes();
    }
    String[] parts = path.split("/");
    Namespace namespace = parts.length > 3 ? Namespace.of(parts[3]) : null;
    if (path.endsWith("/config")) {
      return write(ConfigResponse.builder().build());
    } else if (parts.length == 3) {
      return write(CatalogHandlers.createNamespace(catalog, MAPPER.readValue(body, CreateNamespaceRequest.class)));
    } else if (parts.length == 4) {
      return write(CatalogHandlers.loadNamespace(catalog, namespace));
    } else if (parts.length == 5) {
      return write(CatalogHandlers.createTable(catalog, namespace, MAPPER.readValue(body, CreateTableRequest.class)));
    } else if (parts.length == 6 && method.equals("POST")) {
      UpdateTableRequest request = MAPPER.readValue(body, UpdateTableRequest.class);
      return write(CatalogHandlers.updateTable(catalog, TableIdentifier.of(namespace, parts[5]), request));
    } else if (parts.length == 6) {
      return write(CatalogHandlers.loadTable(catalog, TableIdentifier.of(namespace, parts[5])));
    }
    return new byte[0];
  }

  private static byte[] write(Object response) throws IOException {
    return MAPPER.writeValueAsBytes(response);
  }
}
