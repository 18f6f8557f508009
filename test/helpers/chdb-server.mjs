/**
 * The HTTP interface of ClickHouse over the package chdb, as far as sinks use it: a query as parameter, rows as body, settings as other
 * parameters. `node chdb-server.mjs FOLDER PORT PACKAGE`.
 */
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const [folder, port, path] = process.argv.slice(2);
const { Session } = createRequire(import.meta.url)(path);
const session = new Session(folder);
const set = new Set();
let last = Promise.resolve();

/** One query at a time, as the engine wants it. */
async function run(query, rows, settings) {
  for (const [name, value] of settings) {
    const statement = `SET ${name} = ${value}`;
    if (!set.has(statement)) await session.queryAsync(statement);
    set.add(statement);
  }
  return (await session.queryAsync(rows === '' ? query : `${query}\n${rows}`)).text();
}

createServer(async (request, response) => {
  const { searchParams } = new URL(request.url, 'http://chdb');
  const query = searchParams.get('query');
  searchParams.delete('query');
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  last = last
    .then(() => run(query, Buffer.concat(chunks).toString(), searchParams))
    .then(
      (text) => response.end(text),
      (error) => response.writeHead(500).end(error.message),
    );
}).listen(Number(port), '127.0.0.1');
