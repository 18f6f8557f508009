import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import type { RunCommand } from '../command.ts';
import { packageRoot } from '../package-files.ts';

/** Writes a package with an example plugin that builds and passes its test: a table, a block processor, a route and a JSON-RPC method. */
export const run: RunCommand = async ({ name }, io) => {
  if (typeof name !== 'string' || !/^[a-z][a-z0-9-]{1,31}$/.test(name)) {
    throw new CodedError(
      'CONFIG_INVALID',
      'a name must have 2 to 32 characters a-z, 0-9 and "-", starting with a letter',
      {
        exitCode: EXIT.usage,
      },
    );
  }
  const folder = resolve(io.cwd, name);
  if (existsSync(folder)) throw new CodedError('CONFIG_INVALID', `${folder} exists already`, { exitCode: EXIT.usage });
  for (const [path, text] of Object.entries(filesOf(name))) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  io.out(`written: ${folder}`);
  io.out(`next: cd ${name} && npm install && npm test; then add ./${name} to \`plugins\` of the configuration`);
  return EXIT.ok;
};

function filesOf(id: string): Readonly<Record<string, string>> {
  const table = `${id.replaceAll('-', '_')}_blocks`;
  const method = `get${id.replaceAll(/(^|-)([a-z0-9])/g, (_, _dash, letter: string) => letter.toUpperCase())}Block`;
  const manifest = {
    name: `parhelion-plugin-${id}`,
    version: '0.1.0',
    type: 'module',
    exports: './dist/index.js',
    files: ['dist'],
    scripts: { build: 'tsc', test: 'npm run build && node --test dist/*.test.js' },
    peerDependencies: { parhelion: '*' },
    devDependencies: { '@types/node': '^20.19.0', parhelion: `file:${packageRoot()}`, typescript: '^5.9.0' },
  };
  const compiler = {
    compilerOptions: {
      target: 'ES2022',
      module: 'NodeNext',
      types: ['node'],
      strict: true,
      verbatimModuleSyntax: true,
      rewriteRelativeImportExtensions: true,
      rootDir: 'src',
      outDir: 'dist',
    },
    include: ['src'],
  };
  return {
    'package.json': `${JSON.stringify(manifest, null, 2)}\n`,
    'tsconfig.json': `${JSON.stringify(compiler, null, 2)}\n`,
    '.gitignore': 'node_modules\ndist\n',
    'src/index.ts': pluginText(id, table, method),
    'src/plugin.test.ts': testText(id, method),
  };
}

const pluginText = (id: string, table: string, method: string) => `\
import { API_VERSION, definePlugin, json, type Migration, RpcError, Type } from 'parhelion/plugin';

const line = Type.Object({ slot: Type.Integer(), blockhash: Type.String(), transactions: Type.Integer() });

const migrations: Migration[] = [
  {
    version: 1,
    name: 'create ${table}',
    breaking: false,
    async up({ db }) {
      await db.schema
        .createTable('${table}')
        .addColumn('slot', 'bigint', (column) => column.primaryKey())
        .addColumn('blockhash', 'text', (column) => column.notNull())
        .addColumn('transactions', 'integer', (column) => column.notNull())
        .execute();
    },
  },
];

/** Stores a row per block, and serves it over REST and JSON-RPC. */
export default definePlugin({
  id: '${id}',
  apiVersion: API_VERSION,
  summary: 'a row per block',
  config: Type.Object(
    { maxRows: Type.Integer({ minimum: 1, default: 100, description: 'rows that one answer contains at most' }) },
    { additionalProperties: false, default: {} },
  ),
  migrations,
  provision({ http, rpc, blocks, store, config }) {
    blocks.on({
      name: '${id}',
      version: 1,
      chains: ['main'],
      async apply(tx, { slot, blockhash, transactions }) {
        await tx.db.insertInto('${table}').values({ slot, blockhash, transactions: transactions.length }).execute();
      },
      // A reorg: delete the row that apply wrote for this block.
      async revert(tx, { slot }) {
        await tx.db.deleteFrom('${table}').where('slot', '=', slot).execute();
      },
    });

    http.route({
      method: 'GET',
      path: '/v0/${id}/blocks',
      summary: 'The newest blocks',
      tag: '${id}',
      auth: 'key',
      errors: 'plain',
      query: Type.Object({ limit: Type.Integer({ minimum: 1, maximum: 1000, default: 10, description: 'rows' }) }),
      replies: { 200: Type.Array(line) },
      async handler({ query }) {
        const rows = store.read.selectFrom('${table}').selectAll().orderBy('slot', 'desc');
        return json(await rows.limit(Math.min(query.limit, config.maxRows)).execute());
      },
    });

    rpc.method({
      name: '${method}',
      summary: 'The row of one block',
      tag: '${id}',
      auth: 'key',
      price: { product: 'other', credits: 1, groups: ['rpc'] },
      params: Type.Object({ slot: Type.Integer({ minimum: 0 }) }),
      result: line,
      async handler({ params }) {
        const rows = store.read.selectFrom('${table}').selectAll().where('slot', '=', params.slot);
        const row = await rows.executeTakeFirst();
        if (row === undefined) throw new RpcError('notFound', { message: \`Record Not Found: slot \${params.slot}\` });
        return row;
      },
    });
  },
});
`;

/** Split in two: the build replaces the expression wherever it occurs. */
const OWN_URL = ['import', 'meta', 'url'].join('.');

const testText = (id: string, method: string) => `\
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startTestDaemon, until } from 'parhelion/test';

interface Line {
  slot: number;
  blockhash: string;
}

test('blocks are stored, served, and reverted on a reorg', async (t) => {
  const daemon = await startTestDaemon({ plugins: [fileURLToPath(new URL('./index.js', ${OWN_URL}))] });
  t.after(() => daemon.stop());

  const newest = async () => ((await (await daemon.fetch('/v0/${id}/blocks?limit=1')).json()) as Line[])[0];
  const line = await until('a block', async () => {
    await daemon.chain.seal();
    return newest();
  });
  assert.equal((await daemon.rpc<Line>('${method}', { slot: line.slot })).blockhash, line.blockhash);
  await assert.rejects(daemon.rpc('${method}', { slot: 1 }), { code: -32000 });
  assert.equal((await daemon.fetch('/v0/${id}/blocks?limit=0')).status, 400);

  const tip = await daemon.chain.seal();
  const before = await until('the tip', async () => {
    const row = await newest();
    return row?.slot === tip ? row : undefined;
  });
  await daemon.chain.fork(1);
  await until('the fork', async () => {
    await daemon.chain.seal();
    const now = await daemon.rpc<Line>('${method}', { slot: tip }).catch(() => null);
    return now === null || now.blockhash !== before.blockhash ? true : undefined;
  });
});
`;
