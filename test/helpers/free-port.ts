import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems draw for connections: one of those can be taken again at any moment. */
const [LOWEST, COUNT] = [12_000, 20_000];

/** A port of 127.0.0.1 that nobody listens to. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
