/**
 * Clients in a process of their own: `connection-clients PORT PATH CONNECTIONS`. They ask again as soon as they are answered. Every message
 * is a number: so many further clients connect at once, ask once and leave. The answer is how long requests took since the message before, and
 * the first answers of the new clients, from `connect` on; ms, ascending.
 */
import { connect, type Socket } from 'node:net';

export interface Burst {
  readonly load: readonly number[];
  readonly first: readonly number[];
}

const [port = '', path = '', connections = ''] = process.argv.slice(2);
const request = Buffer.from(`GET ${path} HTTP/1.1\r\nHost: bench\r\n\r\n`);

function open(answered: (tookMs: number, socket: Socket) => boolean): void {
  let [asked, left] = [performance.now(), -1];
  const socket = connect({ port: Number(port), host: '127.0.0.1', noDelay: true });
  socket.write(request);
  socket.on('data', (bytes: Buffer) => {
    if (left < 0) {
      const head = bytes.toString('latin1', 0, bytes.indexOf('\r\n\r\n') + 4);
      if (!head.startsWith('HTTP/1.1 200')) throw new Error(head);
      left = head.length + Number(/content-length: (\d+)/i.exec(head)?.[1]);
    }
    left -= bytes.length;
    if (left > 0) return;
    left = -1;
    if (!answered(performance.now() - asked, socket)) return;
    asked = performance.now();
    socket.write(request);
  });
}

let load: number[] = [];
for (let i = 0; i < Number(connections); i += 1)
  open((tookMs) => {
    load.push(tookMs);
    return true;
  });
const ascending = (list: number[]) => list.sort((a, b) => a - b);
process.on('message', (count: number) => {
  const [before, first] = [ascending(load), [] as number[]];
  const tell = () => process.send?.({ load: before, first: ascending(first) } satisfies Burst);
  load = [];
  if (count === 0) tell();
  for (let i = 0; i < count; i += 1)
    open((tookMs, socket) => {
      socket.destroy();
      if (first.push(tookMs) === count) tell();
      return false;
    });
});
process.on('disconnect', () => process.exit());
