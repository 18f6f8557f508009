/**
 * The two sides of the proxy rows, each in a process of its own: `upstream` is node:http that reads the request and sends ready
 * bytes; `daemon URL` is a whole daemon in front of it.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startDaemon } from '../../helpers/daemon.ts';
import { answerTo, PROXY_KEY } from './proxy-answers.ts';

async function serveUpstream(): Promise<number> {
  const answers = new Map<string, Buffer>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const answer = answers.get(body) ?? Buffer.from(answerTo(body));
      if (answers.size < 100) answers.set(body, answer);
      response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': answer.length });
      response.end(answer);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

async function serveDaemon(upstream: string): Promise<number> {
  const daemon = await startDaemon({
    key: PROXY_KEY,
    config: { upstream: { urls: [upstream] }, follow: { enabled: false } },
  });
  return Number(new URL(daemon.apiUrl).port);
}

const [kind, upstream] = process.argv.slice(2);
const port = kind === 'daemon' ? await serveDaemon(upstream!) : await serveUpstream();
process.once('disconnect', () => process.exit(0));
process.send?.({ port });
