import { AssertionError } from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface TestServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * A server on a free port. When its handler fails, because its caller has left or what it asks is gone, the connection ends; a test that is over
 * then fails no file.
 */
export async function startHttpServer(
  handle: (body: Buffer, request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<TestServer> {
  const server = createServer((request, response) => {
    buffer(request)
      .then((body) => handle(body, request, response))
      .catch((error: unknown) => {
        if (error instanceof AssertionError) throw error;
        response.destroy();
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
