/** A receiver that notes when requests arrive, and one that takes them and never answers. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Arrivals {
  readonly url: string;
  /** Resolves when that many have arrived since it was last asked, with when: paths and `performance.now()`. */
  take(count: number): Promise<readonly { readonly path: string; readonly at: number }[]>;
  close(): void;
}

export async function startArrivals(): Promise<Arrivals> {
  let arrived: { path: string; at: number }[] = [];
  let onArrival = (): void => undefined;
  const server = createServer((request, response) => {
    const at = performance.now();
    request.resume();
    request.on('end', () => {
      response.writeHead(200, { 'content-length': 0 }).end();
      arrived.push({ path: request.url ?? '', at });
      onArrival();
    });
  });
  return {
    url: await listen(server),
    take: (count) =>
      new Promise((resolve) => {
        onArrival = () => {
          if (arrived.length < count) return;
          onArrival = () => undefined;
          resolve(arrived);
          arrived = [];
        };
        onArrival();
      }),
    close: () => end(server),
  };
}

export async function startSilence(): Promise<Pick<Arrivals, 'url' | 'close'>> {
  const server = createServer((request) => void request.resume());
  return { url: await listen(server), close: () => end(server) };
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function end(server: Server): void {
  server.close();
  server.closeAllConnections();
}
