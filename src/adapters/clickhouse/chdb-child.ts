import { chmodSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

/**
 * The process around the engine of the package chdb: the parts of ClickHouse's HTTP interface that are used here, on a socket in the
 * folder of the database. One process at a time may open a folder, and an engine that ends takes nothing with it. Arguments: the folder,
 * and a folder in which the package is also searched. It ends with its parent.
 */

interface Session {
  queryAsync(sql: string, options: { readonly format: string }): Promise<{ text(): string }>;
  insert(rows: { readonly table: string; readonly values: Buffer; readonly format: 'TabSeparated' }): Promise<unknown>;
  close(): void;
}

const INSERT = /^INSERT INTO ([\w.]+) FORMAT TabSeparated$/;

const [folder = '', packages = ''] = process.argv.slice(2);
const socket = join(folder, 'parhelion.sock');

function loadSession(): Session {
  for (const base of [import.meta.url, join(packages, 'package.json')]) {
    let path: string;
    try {
      path = createRequire(base).resolve('chdb');
    } catch {
      continue;
    }
    const { Session: Made } = createRequire(base)(path) as { readonly Session: new (folder: string) => Session };
    return new Made(folder);
  }
  throw new Error('the package chdb is not installed (npm install chdb@3.4.0)');
}

try {
  const session = loadSession();
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      const insert = INSERT.exec(new URL(request.url ?? '/', 'http://chdb').searchParams.get('query') ?? '');
      const answer =
        insert === null
          ? session.queryAsync(body.toString(), { format: 'JSONEachRow' }).then((result) => result.text())
          : session.insert({ table: insert[1]!, values: body, format: 'TabSeparated' }).then(() => '');
      answer.then(
        (text) => response.end(text),
        (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.message : String(error)),
      );
    });
  });
  // Left by a process that was killed: the engine's own lock says that nobody uses the folder now.
  rmSync(socket, { force: true });
  server.listen(socket, () => {
    chmodSync(socket, 0o600);
    process.send?.({ isReady: true });
  });
  process.once('disconnect', () => {
    session.close();
    process.exit(0);
  });
} catch (error) {
  process.send?.({ isReady: false, reason: error instanceof Error ? error.message : String(error) });
  process.disconnect?.();
  process.exitCode = 1;
}
