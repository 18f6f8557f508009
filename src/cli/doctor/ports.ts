import { createServer } from 'node:net';
import type { CoreConfig } from '../../kernel/config/core.ts';
import { codeOf } from '../../lib/coded-error.ts';
import type { RunFile } from '../run-file.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

interface Wanted {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  /** The daemon runs without it. */
  readonly isOptional: boolean;
  /** Where running processes have it. */
  readonly held: readonly string[];
}

/** Each address to listen on is free, or held by the running daemon. Binds for an instant. */
export async function portFindings({ http, admin }: CoreConfig, running: readonly RunFile[]): Promise<Finding[]> {
  const { websocketPort: own } = http;
  const twinPort = own ?? (http.port === 0 || http.port === 65_535 ? 0 : http.port + 1);
  const held = (listener: 'api' | 'websocket' | 'admin') =>
    running.flatMap((one) => (one[listener] === null ? [] : [one[listener]]));
  const wanted: Wanted[] = [
    { name: 'http.port', host: http.host, port: http.port, isOptional: false, held: held('api') },
    {
      ...{ name: 'http.websocketPort', host: http.host, port: twinPort },
      ...{ isOptional: own === null, held: held('websocket') },
    },
    { name: 'admin.port', host: admin.host, port: admin.port, isOptional: false, held: held('admin') },
  ];
  return await Promise.all(wanted.map(look));
}

async function look({ name, host, port, isOptional, held }: Wanted): Promise<Finding> {
  const mine = held.find((address) => port === 0 || portOf(address) === port);
  if (mine !== undefined) return ok('port', `${name}: the daemon has ${mine}`);
  if (port === 0) return ok('port', `${name}: any free port`);
  const where = `${host}:${port}`;
  const trouble = await tryToBind(host, port);
  if (trouble === null) return ok('port', `${name}: ${where} is free`);
  const detail = `${name}: ${where} ${trouble === 'EADDRINUSE' ? 'is held by another process' : `cannot be bound (${trouble})`}`;
  return isOptional
    ? warn('port', detail, `${adviceFor(trouble, name, port)}; without it the API port serves websockets alone`)
    : fail('port', detail, adviceFor(trouble, name, port));
}

function adviceFor(trouble: string, name: string, port: number): string {
  if (trouble === 'EADDRINUSE')
    return `ss -ltnp 'sport = :${port}' shows who (systemd, if its socket unit is active): stop it, or set ${name}`;
  if (trouble === 'EACCES') return `ports below 1024 need a privilege: set ${name} higher, with a proxy in front`;
  return 'set the host to an address of this machine';
}

function tryToBind(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error) => resolve(codeOf(error) ?? 'error'));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

const portOf = (address: string) => Number(new URL(address).port);
