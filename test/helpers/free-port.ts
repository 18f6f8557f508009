import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems draw for connections: one of those can be taken again at any moment. */
const [LOWEST, COUNT] = [12_000, 20_000];

/** A port of 127.0.0.1 that nobody listens to. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    if (await isFree(port)) return port;
  }
}

/** A port that is free, as is the next one. */
export async function twoFreePorts(): Promise<number> {
  for (;;) {
    const port = await freePort();
    if (await isFree(port + 1)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  const listens = await once(server, 'listening').then(
    () => true,
    () => false,
  );
  if (listens) await new Promise((resolve) => server.close(resolve));
  return listens;
}
