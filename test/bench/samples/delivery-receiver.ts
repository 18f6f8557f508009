/** The receiver of the delivery rows: a process of its own that reads every request and answers 200 without a body. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const MAX_SAMPLES = 64;

let count = 0;
let samples: { headers: unknown; body: string }[] = [];
const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify({ count, samples }));
    if (request.url === '/reset') {
      count = 0;
      samples = [];
    }
    return;
  }
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    count += 1;
    if (samples.length < MAX_SAMPLES) {
      samples.push({ headers: request.headers, body: Buffer.concat(parts).toString('latin1') });
    }
    response.writeHead(200, { 'content-length': 0 }).end();
  });
});
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.once('disconnect', () => process.exit(0));
