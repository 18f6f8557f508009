/**
 * The sides of the proxy rows, each in a process of its own. `upstream` is node:http that reads the request and sends ready bytes;
 * `reference` the same, some slots later. `daemon URL` is a whole daemon in front of it, and `shadow URL REFERENCE` one with the plugin
 * shadow. `bare URL` is the least that a proxy does, node:http and a pool of undici: no key, no look at the call, no limit, no metrics, no log.
 */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';
import { coreConfig } from '../../../src/config/core.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { answerTo, PROXY_KEY, SHADOW_SHARE } from './proxy-answers.ts';

const DEFAULT_PLUGINS = coreConfig.properties.plugins.default as readonly string[];
const UNLIMITED = {
  requestsPerDay: Number.MAX_SAFE_INTEGER,
  creditsPerDay: 1e15,
  bytesPerDay: Number.MAX_SAFE_INTEGER,
};

interface Ports {
  readonly port: number;
  readonly adminPort?: number;
}

/** The same as of a later slot. */
const later = (text: string, slots: number): string =>
  text.replace(/"slot":(\d+)/, (_, slot) => `"slot":${Number(slot) + slots}`);

async function serveUpstream(slotsAhead = 0): Promise<Ports> {
  const answers = new Map<string, Buffer>();
  return await listen(
    createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        const answer = answers.get(body) ?? Buffer.from(later(answerTo(body), slotsAhead));
        if (answers.size < 100) answers.set(body, answer);
        response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': answer.length });
        response.end(answer);
      });
    }),
  );
}

async function serveDaemon(upstream: string): Promise<Ports> {
  const daemon = await startDaemon({
    key: PROXY_KEY,
    config: { upstream: { urls: [upstream] }, follow: { enabled: false } },
  });
  return { port: portOf(daemon.apiUrl) };
}

/** Compares a tenth of the answers with those of the reference, which answers the same. */
async function serveShadow(upstream: string, reference: string): Promise<Ports> {
  const daemon = await startDaemon({
    key: PROXY_KEY,
    config: {
      upstream: { urls: [upstream] },
      follow: { enabled: false },
      plugins: [...DEFAULT_PLUGINS, 'shadow'],
      shadow: { share: SHADOW_SHARE, reference: { url: reference, products: ['rpc'] }, budget: UNLIMITED },
    },
  });
  return { port: portOf(daemon.apiUrl), adminPort: portOf(daemon.adminUrl) };
}

async function serveBareProxy(upstream: string): Promise<Ports> {
  const pool = new Pool(new URL(upstream).origin, { connections: 64 });
  const pass = async (body: Buffer, response: ServerResponse): Promise<void> => {
    const answer = await pool.request({
      path: '/',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    const bytes = Buffer.from(await answer.body.arrayBuffer());
    response.writeHead(answer.statusCode, { 'Content-Type': 'application/json', 'Content-Length': bytes.length });
    response.end(bytes);
  };
  return await listen(
    createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        pass(Buffer.concat(chunks), response).catch((error: Error) => response.destroy(error));
      });
    }),
  );
}

async function listen(server: Server): Promise<Ports> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port };
}

const portOf = (url: string): number => Number(new URL(url).port);

const [kind = 'upstream', upstream = '', reference = ''] = process.argv.slice(2);
const sides: Readonly<Record<string, () => Promise<Ports>>> = {
  upstream: () => serveUpstream(),
  reference: () => serveUpstream(3),
  daemon: () => serveDaemon(upstream),
  shadow: () => serveShadow(upstream, reference),
  bare: () => serveBareProxy(upstream),
};
const ports = await sides[kind]?.();
process.once('disconnect', () => process.exit(0));
process.send?.(ports);
