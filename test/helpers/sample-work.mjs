/**
 * The work that `work-meter.ts` measures: what tests do, in about their shares. It loads and compiles code, parses and allocates; asks a server
 * over HTTP, one request after the other, which is mostly changes between kernel and process; and commits to SQLite. Nothing of it is code of
 * this project, and the versions of the packages are fixed, so it stays the same. Prints the CPU seconds that it took.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';

const REQUESTS = 600;
const COMMITS = 600;

const require = createRequire(import.meta.url);
const ts = require('typescript');
const path = require.resolve('typescript/lib/lib.es5.d.ts');
ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);

const server = createServer((incoming, response) => {
  incoming.resume();
  incoming.on('end', () => response.end(JSON.stringify({ id: 1, result: 'x'.repeat(200) })));
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const { port } = server.address();
for (let sent = 0; sent < REQUESTS; sent += 1)
  await new Promise((resolve, reject) => {
    const asked = request({ port, method: 'POST' }, (response) => {
      response.resume();
      response.on('end', resolve);
    });
    asked.on('error', reject);
    asked.end(JSON.stringify({ id: sent, method: 'getSlot' }));
  });
server.close();
server.closeAllConnections();

const folder = mkdtempSync(join(tmpdir(), 'parhelion-sample-'));
const db = new Database(join(folder, 'a.db'));
db.pragma('journal_mode = wal');
db.pragma('synchronous = off');
db.exec('create table one (id integer primary key, body text)');
const insert = db.prepare('insert into one (body) values (?)');
for (let made = 0; made < COMMITS; made += 1) {
  insert.run('x'.repeat(100));
  await new Promise((resolve) => setImmediate(resolve));
}
db.close();
rmSync(folder, { recursive: true });

const { user, system } = process.cpuUsage();
console.log((user + system) / 1e6);
