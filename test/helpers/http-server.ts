import { AssertionError } from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface TestServer {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/**
 * A server, by default on a free port. When its handler fails, because its caller has left or what it asks is gone, the connection ends; a test that is over
 * then fails no file.
 */
export async function startHttpServer(
  handle: (body: Buffer, request: IncomingMessage, response: ServerResponse) => unknown,
  wantedPort = 0,
): Promise<TestServer> {
  const server = createServer((request, response) => {
    buffer(request)
      .then((body) => handle(body, request, response))
      .catch((error: unknown) => {
        if (error instanceof AssertionError) throw error;
        response.destroy();
      });
  });
  await new Promise<void>((resolve) => server.listen(wantedPort, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
